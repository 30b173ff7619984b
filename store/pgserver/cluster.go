package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	// dbName is the database and the superuser in it; the cluster has one client, batchd.
	dbName = "fairslice"
	// port only names the socket file.
	port = "5432"
	// maxSocketPath is what fits into sockaddr_un.sun_path beside its closing zero byte.
	maxSocketPath = 107
	// maxLog is the size from which the log is set aside at the next start of the server.
	maxLog = 16 << 20
)

// settings is the whole postgresql.conf. Group commit lives on cheap, honest commits: fsync stays on, and what
// batchd acknowledges is on disk. batchd uses a handful of connections and short statements, so
// memory is small and the just-in-time compiler, whose start-up costs more than our statements, is off.
const settings = `# Written by batchd at each start. Put your own settings into local.conf beside this file.
max_connections = 50
shared_buffers = 64MB
fsync = on
synchronous_commit = on
checkpoint_timeout = 15min
max_wal_size = 1GB
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
log_destination = 'stderr'
logging_collector = off
log_line_prefix = '%m [%p] '
log_checkpoints = off
`

// cluster is the places and the owner of one cluster.
type cluster struct {
	dir    string // absolute, links resolved: it is compared with /proc/PID/cwd
	bin    binaries
	uid    int
	gid    int
	socket string // directory of the socket
}

func (c *cluster) data() string       { return filepath.Join(c.dir, "data") }
func (c *cluster) configFile() string { return filepath.Join(c.dir, "postgresql.conf") }
func (c *cluster) hbaFile() string    { return filepath.Join(c.dir, "pg_hba.conf") }
func (c *cluster) run() string        { return filepath.Join(c.dir, "run") }
func (c *cluster) logDir() string     { return filepath.Join(c.dir, "log") }
func (c *cluster) logFile() string    { return filepath.Join(c.logDir(), "postgres.log") }

// url is understood by libpq and pgx alike. A plus sign is escaped because only one of them takes it for a space.
func (c *cluster) url() string {
	host := strings.ReplaceAll(url.QueryEscape(c.socket), "+", "%20")
	return "postgres://" + dbName + "@/" + dbName + "?host=" + host + "&port=" + port
}

// openCluster resolves Dir, the user and the programs, and makes the directories. The lock must be held.
func openCluster(cfg Config, dir string) (*cluster, error) {
	c := &cluster{dir: dir}
	dataMajor, err := c.dataMajor()
	if err != nil {
		return nil, err
	}
	if c.bin, err = findBinaries(cfg.BinDir, dataMajor); err != nil {
		return nil, err
	}
	if err := c.setOwner(cfg.User, dataMajor != 0); err != nil {
		return nil, err
	}
	if err := c.makeDir(c.logDir()); err != nil {
		return nil, err
	}
	return c, c.makeSocketDir()
}

// dataMajor returns the major version of the cluster in data, 0 when there is none yet.
func (c *cluster) dataMajor() (int, error) {
	b, err := os.ReadFile(filepath.Join(c.data(), "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(c.data()); err == nil {
			return 0, fmt.Errorf("%s is there, but is not a PostgreSQL cluster; move it away", c.data())
		}
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the cluster's version: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("%s/PG_VERSION: %w", c.data(), err)
	}
	return major, nil
}

// setOwner chooses who PostgreSQL runs as. A cluster that is there keeps its owner, also when a better
// candidate has appeared on the machine since (the package postgresql makes the user postgres).
func (c *cluster) setOwner(name string, exists bool) error {
	c.uid, c.gid = os.Geteuid(), os.Getegid()
	isRoot := c.uid == 0
	if isRoot {
		candidates := []string{name}
		if name == "" {
			candidates = []string{"postgres", "nobody"}
		}
		u, err := lookup(candidates)
		if err != nil {
			return err
		}
		if c.uid, c.gid, err = ids(u); err != nil {
			return err
		}
	}
	if exists {
		var st syscall.Stat_t
		if err := syscall.Stat(c.data(), &st); err != nil {
			return fmt.Errorf("look at %s: %w", c.data(), err)
		}
		if int(st.Uid) != c.uid {
			if !isRoot || name != "" {
				return fmt.Errorf("%s belongs to uid %d, but PostgreSQL would run as uid %d", c.data(), st.Uid, c.uid)
			}
			c.uid, c.gid = int(st.Uid), int(st.Gid)
		}
	}
	if c.uid == 0 {
		return errors.New("PostgreSQL refuses to run as root; set another user for it in the configuration")
	}
	return nil
}

func lookup(names []string) (*user.User, error) {
	for _, n := range names {
		if u, err := user.Lookup(n); err == nil {
			return u, nil
		}
	}
	return nil, fmt.Errorf("no user %s on this machine to run PostgreSQL as (it refuses root)", strings.Join(names, " or "))
}

func ids(u *user.User) (uid, gid int, err error) {
	if uid, err = strconv.Atoi(u.Uid); err == nil {
		gid, err = strconv.Atoi(u.Gid)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("user %s: %w", u.Username, err)
	}
	return uid, gid, nil
}

// makeDir makes path as a directory that only the cluster's user (and root) can enter. Dir itself stays with
// whoever runs batchd, so root never renames or removes in a directory that someone else may change.
func (c *cluster) makeDir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make a directory for PostgreSQL: %w", err)
	}
	st, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	if !st.IsDir() {
		return fmt.Errorf("%s is not a directory", path)
	}
	if owner := st.Sys().(*syscall.Stat_t).Uid; int(owner) != c.uid {
		if err := os.Lchown(path, c.uid, c.gid); err != nil {
			return fmt.Errorf("give %s to uid %d: %w", path, c.uid, err)
		}
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return fmt.Errorf("close %s to others: %w", path, err)
	}
	return nil
}

// makeSocketDir sets socket: Dir/run, or a fresh directory in a short place with Dir/run as a link to it.
// Fresh, because a name that others can foresee in a shared place is theirs to take first.
func (c *cluster) makeSocketDir() error {
	if err := c.removeSocketDir(); err != nil {
		return err
	}
	// A comma would part a list of hosts in the client's connection string.
	if len(c.run())+len("/.s.PGSQL."+port) <= maxSocketPath && !strings.Contains(c.run(), ",") {
		c.socket = c.run()
		return c.makeDir(c.socket)
	}
	base := os.TempDir()
	if os.Geteuid() == 0 {
		if st, err := os.Stat("/run"); err == nil && st.IsDir() {
			base = "/run"
		}
	}
	short, err := os.MkdirTemp(base, "fairslice-pg-")
	if err != nil {
		return fmt.Errorf("make a short directory for the socket: %w", err)
	}
	if n := len(short) + len("/.s.PGSQL."+port); n > maxSocketPath {
		os.Remove(short)
		return fmt.Errorf("%s is too long for a socket too (%d bytes, %d fit); set TMPDIR to a shorter place", base, n, maxSocketPath)
	}
	if err := os.Symlink(short, c.run()); err != nil {
		os.Remove(short)
		return fmt.Errorf("note the socket directory: %w", err)
	}
	c.socket = short
	return c.makeDir(short)
}

// removeSocketDir removes a short socket directory and its link, of this run or of one that was killed.
// Dir/run itself stays.
func (c *cluster) removeSocketDir() error {
	short, err := os.Readlink(c.run())
	if err != nil {
		return nil // not there, or a plain directory
	}
	if err := errors.Join(removeSocket(short), removeFile(short)); err != nil {
		return fmt.Errorf("remove the socket directory of an earlier run: %w", err)
	}
	if err := os.Remove(c.run()); err != nil {
		return fmt.Errorf("remove the link to an earlier socket directory: %w", err)
	}
	return nil
}

// removeSocket removes the socket and its lock file, which a killed server leaves behind.
func removeSocket(dir string) error {
	socket := filepath.Join(dir, ".s.PGSQL."+port)
	return errors.Join(removeFile(socket), removeFile(socket+".lock"))
}

// removeFile removes a file, or an empty directory, that may be gone already.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// initialize makes the cluster when there is none. A crash leaves data.new-* behind, which the next call removes;
// an initdb that outlived its batchd then fails, having its ground removed, and harms nothing.
func (c *cluster) initialize(ctx context.Context) error {
	old, err := filepath.Glob(filepath.Join(c.dir, "data.new-*"))
	if err != nil {
		return fmt.Errorf("look for unfinished clusters: %w", err)
	}
	for _, d := range old {
		if err := os.RemoveAll(d); err != nil {
			return fmt.Errorf("remove an unfinished cluster: %w", err)
		}
	}
	if _, err := os.Stat(c.data()); err == nil {
		return nil
	}
	tmp, err := os.MkdirTemp(c.dir, "data.new-")
	if err != nil {
		return fmt.Errorf("make the cluster: %w", err)
	}
	defer os.RemoveAll(tmp) // nothing is there after the rename
	if err := c.makeDir(tmp); err != nil {
		return err
	}
	// The C locale is on every machine and sorts the same on all; trust, see the package's first rule.
	initdb := c.command(ctx, "initdb", "-D", tmp, "-U", dbName, "--encoding=UTF8", "--locale=C", "--auth=trust")
	if err := runQuiet(initdb); err != nil {
		return fmt.Errorf("make the cluster in %s: %w", c.dir, err)
	}
	single := c.command(ctx, "postgres", "--single", "-D", tmp, "-c", "log_checkpoints=off", "postgres")
	single.Stdin = strings.NewReader("CREATE DATABASE " + dbName + ";\n")
	if err := runQuiet(single); err != nil {
		return fmt.Errorf("make the database in %s: %w", c.dir, err)
	}
	if err := os.Rename(tmp, c.data()); err != nil {
		return fmt.Errorf("put the new cluster in place: %w", err)
	}
	return syncDir(c.dir)
}

// writeConfig writes the two files the server reads, at each start, so that a new version of this
// package brings its settings to an old cluster. They lie outside the data directory: root must not write where
// another user could have planted a link.
func (c *cluster) writeConfig() error {
	conf := settings
	// Asked here rather than by include_if_exists, which logs that the file is missing at every start.
	if _, err := os.Stat(filepath.Join(c.dir, "local.conf")); err == nil {
		conf += "include = 'local.conf'\n"
	}
	for path, text := range map[string]string{
		c.configFile(): conf,
		c.hbaFile():    "# Written by batchd at each start. Who can enter the socket's directory may connect.\nlocal all all trust\n",
	} {
		next := path + ".new"
		err := os.WriteFile(next, []byte(text), 0o644)
		if err == nil {
			err = os.Chmod(next, 0o644) // whatever the umask: the server reads it as another user
		}
		if err == nil {
			err = os.Rename(next, path)
		}
		if err != nil {
			return fmt.Errorf("write the server's settings: %w", err)
		}
	}
	return nil
}

// command prepares one of the programs to run as the cluster's user, in a session of its own, with an
// environment that does not depend on who called batchd.
func (c *cluster) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.bin.path(program), args...)
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=" + c.bin.dir + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	// An own session: Ctrl-C on batchd's terminal must reach batchd alone, which then stops PostgreSQL last.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(c.uid), Gid: uint32(c.gid)}
	}
	return cmd
}

// runQuiet runs cmd and puts what it said into the error.
func runQuiet(cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("run %s: %w (can the user that PostgreSQL runs as enter every directory above %s?)", cmd.Path, err, cmd.Dir)
	}
	if err != nil {
		return fmt.Errorf("run %s: %w: %s", cmd.Path, err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
