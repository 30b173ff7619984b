package session

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Snapshot sends the root file system that the server runs in as a tar archive, without what is mounted in it. Its output is the
// archive, its standard error what was left out or changed meanwhile, and its status is 0 when the archive is whole.
type Snapshot struct {
	Labels map[string]string `json:"labels,omitempty"` // beside those that the image has; these count more
}

const (
	insideDir = "/.fairslice" // ours; see package apptainer
	maxLabels = 1 << 20
	// maxLeftOut is how many lines are sent of what was left out; then their number.
	maxLeftOut = 100
)

func (q *Snapshot) check() error {
	size := 0
	for name, value := range q.Labels {
		size += len(name) + len(value)
		if name == "" {
			return errors.New("a label has no name")
		}
	}
	if size > maxLabels/2 {
		return fmt.Errorf("the labels have %d bytes; %d are allowed", size, maxLabels/2)
	}
	return nil
}

// snapshot carries out the request. Whoever asked may leave: then writing fails.
func (s *server) snapshot(w *writer, q *Snapshot) {
	if w.frame(frameTaken, nil) != nil {
		return
	}
	mounted, err := mountPoints("/proc/self/mountinfo")
	if err == nil {
		err = sendRoot(output{w}, "/", mounted, q.Labels, func(line string) {
			_ = w.frame(frameError, []byte(strings.ToValidUTF8(line, "?")+"\n")) // fails where the output does
		})
	}
	if err == nil && ended(jobFD) {
		err = errors.New("the session has ended")
	}
	status := uint32(0)
	if err != nil {
		_ = w.frame(frameError, []byte(strings.ToValidUTF8(err.Error(), "?")+"\n"))
		status = 1 << 8
	}
	_ = w.number(frameExit, status)
}

// ended says that the process of a pidfd is gone. Of what is none it knows nothing.
func ended(pidfd int) bool {
	look := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(look, 0)
	return err == nil && n > 0 && look[0].Revents&unix.POLLIN != 0
}

// mountPoints are the places below the root where something else is mounted.
func mountPoints(file string) (map[string]bool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseMountPoints(string(text))
}

// parseMountPoints reads the form of /proc/PID/mountinfo, see proc(5).
func parseMountPoints(text string) (map[string]bool, error) {
	out := map[string]bool{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 6 || !strings.HasPrefix(fields[4], "/") {
			return nil, fmt.Errorf("mountinfo: line %.80q is not as proc(5) says", line)
		}
		if p := unescape(fields[4]); p != "/" {
			out[p] = true
		}
	}
	return out, nil
}

// unescape undoes how mountinfo writes spaces, tabs, line breaks and backslashes: \040 and the like.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && octal(s[i+1]) && octal(s[i+2]) && octal(s[i+3]) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func octal(c byte) bool { return c >= '0' && c <= '7' }

// root sends one root file system.
type root struct {
	dir     string // where it is
	mounted map[string]bool
	labels  map[string]string
	tar     *tar.Writer
	left    func(line string)
	leftOut int
	told    bool                 // the labels are sent
	names   map[[2]uint64]string // the first name of each file with several
	pending []pendingDir         // directories on the way that are not in the archive yet
}

// pendingDir is a directory whose entry waits until something in it is sent: one that is there only to hold a mount point is
// none of the image.
type pendingDir struct {
	name string
	st   fs.FileInfo
	sent bool
	held bool // something is mounted in it
}

// sendRoot writes the tree of dir, but not what is mounted there. An error ends it; what cannot be read is left out and said.
func sendRoot(w io.Writer, dir string, mounted map[string]bool, labels map[string]string, left func(string)) error {
	r := &root{dir: dir, mounted: mounted, labels: labels, tar: tar.NewWriter(w), left: left, names: map[[2]uint64]string{}}
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if _, err := r.directory("/", st); err != nil {
		return err
	}
	if len(labels) > 0 && !r.told {
		if err := r.labelled(labelsFile, st); err != nil {
			return err
		}
	}
	if err := r.tar.Close(); err != nil {
		return err
	}
	if r.leftOut > maxLeftOut {
		left(fmt.Sprintf("and %d more", r.leftOut-maxLeftOut))
	}
	return nil
}

func (r *root) leave(name, why string) {
	if r.leftOut++; r.leftOut <= maxLeftOut {
		r.left(name + ": " + why)
	}
}

func (r *root) path(name string) string { return path.Join(r.dir, name) }

// unread leaves out what may not be read, or was removed since. Anything else ends the archive: where the programs that mount the image have
// ended with the session, every file is an error, and what is left without them is none of its image.
func (r *root) unread(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENOTDIR):
		r.leave(name, plain(err))
		return nil
	}
	return fmt.Errorf("%s: %s", name, plain(err))
}

// directory sends a directory with what is in it. needed is false for one that only holds what is mounted.
func (r *root) directory(name string, st fs.FileInfo) (needed bool, err error) {
	entries, err := os.ReadDir(r.path(name))
	if err != nil {
		return false, r.unread(name, err)
	}
	at := len(r.pending)
	r.pending = append(r.pending, pendingDir{name: name, st: st})
	defer func() { r.pending = r.pending[:at] }()
	for _, e := range entries {
		child := path.Join(name, e.Name())
		if r.mounted[child] || child == insideDir {
			r.pending[at].held = true
			continue
		}
		if err := r.entry(child); err != nil {
			return false, err
		}
	}
	d := &r.pending[at]
	if !d.sent && !d.held {
		if err := r.flush(); err != nil {
			return false, err
		}
	}
	return r.pending[at].sent, nil
}

// flush sends the directories on the way to what comes next.
func (r *root) flush() error {
	for i := range r.pending {
		d := &r.pending[i]
		if d.sent {
			continue
		}
		d.sent = true
		if d.name == "/" {
			continue
		}
		if err := r.tar.WriteHeader(header(d.name+"/", tar.TypeDir, d.st)); err != nil {
			return err
		}
	}
	return nil
}

func header(name string, kind byte, st fs.FileInfo) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: "." + name, Mode: int64(st.Mode().Perm()), ModTime: st.ModTime().Truncate(time.Second), Format: tar.FormatPAX}
}

func (r *root) entry(name string) error {
	if strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		r.leave(name, "control characters in the name")
		return nil
	}
	st, err := os.Lstat(r.path(name))
	if err != nil {
		return r.unread(name, err)
	}
	switch mode := st.Mode(); {
	case mode.IsDir():
		needed, err := r.directory(name, st)
		if err == nil && !needed {
			r.pending[len(r.pending)-1].held = true
		}
		return err
	case mode&fs.ModeSymlink != 0:
		return r.symlink(name, st)
	case !mode.IsRegular():
		r.leave(name, "a device, pipe or socket")
		return nil
	}
	return r.file(name, st)
}

func (r *root) symlink(name string, st fs.FileInfo) error {
	target, err := os.Readlink(r.path(name))
	if err != nil {
		return r.unread(name, err)
	}
	if err := r.flush(); err != nil {
		return err
	}
	h := header(name, tar.TypeSymlink, st)
	h.Linkname = withinRoot(name, target)
	return r.tar.WriteHeader(h)
}

// withinRoot makes an absolute target of one that goes above the root, which is where the kernel stops.
func withinRoot(name, target string) string {
	if path.IsAbs(target) {
		return target
	}
	depth := strings.Count(name, "/") - 1
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return path.Join(path.Dir(name), target)
			}
		default:
			depth++
		}
	}
	return target
}

func (r *root) file(name string, st fs.FileInfo) error {
	if name == labelsFile && len(r.labels) > 0 {
		return r.labelled(name, st)
	}
	f, err := os.OpenFile(r.path(name), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return r.unread(name, err)
	}
	defer f.Close()
	if st, err = f.Stat(); err != nil || !st.Mode().IsRegular() {
		r.leave(name, "it was changed while it was read")
		return nil
	}
	if err := r.flush(); err != nil {
		return err
	}
	h := header(name, tar.TypeReg, st)
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Nlink > 1 {
		id := [2]uint64{sys.Dev, sys.Ino}
		if first, ok := r.names[id]; ok {
			h.Typeflag, h.Linkname = tar.TypeLink, "."+first
			return r.tar.WriteHeader(h)
		}
		r.names[id] = name
	}
	h.Size = st.Size()
	if err := r.tar.WriteHeader(h); err != nil {
		return err
	}
	return r.content(name, f, h.Size)
}

// content sends as many bytes as the header says, whatever becomes of the file meanwhile.
func (r *root) content(name string, f *os.File, size int64) error {
	n, err := io.Copy(r.tar, io.LimitReader(f, size))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if n < size {
		r.leave(name, "it became shorter while it was read; zeros in their place")
	}
	for zeros := make([]byte, MaxData); n < size; {
		m, err := r.tar.Write(zeros[:min(int64(len(zeros)), size-n)])
		if err != nil {
			return err
		}
		n += int64(m)
	}
	return nil
}

// labelled sends the image's labels with the new ones. A file that is none of labels is replaced.
func (r *root) labelled(name string, st fs.FileInfo) error {
	labels := map[string]string{}
	if text, err := os.ReadFile(r.path(name)); err == nil && len(text) <= maxLabels {
		var any map[string]any
		if json.Unmarshal(text, &any) == nil {
			for _, key := range slices.Sorted(maps.Keys(any)) {
				if value, ok := any[key].(string); ok {
					labels[key] = value
				}
			}
		}
	}
	maps.Copy(labels, r.labels)
	text, err := json.MarshalIndent(labels, "", "\t")
	if err != nil {
		return err
	}
	if err := r.flush(); err != nil {
		return err
	}
	r.told = true
	h := header(name, tar.TypeReg, st)
	h.Size, h.Mode = int64(len(text)), 0o644
	if err := r.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err = r.tar.Write(text)
	return err
}

// plain is an error without the name that it is about.
func plain(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
