package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// binaries is one installation of the PostgreSQL server programs.
type binaries struct {
	dir   string
	major int
}

func (b binaries) path(program string) string { return filepath.Join(b.dir, program) }

// serverPrograms are the ones we run; an installation without one of them is a client only.
var serverPrograms = []string{"initdb", "postgres"}

// installPatterns are where distributions put the programs, beside PATH. A variable for tests.
var installPatterns = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"}

// findBinaries returns the newest installation, or, when dataMajor is not 0, the newest of that major
// version: a cluster can only be run by the major version that made it. A given dir is the only one looked at.
func findBinaries(dir string, dataMajor int) (binaries, error) {
	var candidates []string
	if dir != "" {
		candidates = []string{dir}
	} else {
		for _, pattern := range installPatterns {
			found, err := filepath.Glob(pattern)
			if err != nil {
				return binaries{}, fmt.Errorf("find PostgreSQL in %s: %w", pattern, err)
			}
			candidates = append(candidates, found...)
		}
		if p, err := exec.LookPath("postgres"); err == nil {
			candidates = append(candidates, filepath.Dir(p))
		}
	}

	var found []binaries
	var problems []error
	for _, c := range candidates {
		b, err := inspect(c)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		found = append(found, b)
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].major > found[j].major })

	for _, b := range found {
		if dataMajor == 0 || b.major == dataMajor {
			return b, nil
		}
	}
	if len(found) > 0 {
		return binaries{}, fmt.Errorf("the cluster was made by PostgreSQL %d, but only PostgreSQL %d is here (%s); "+
			"install version %d, or convert the cluster with pg_upgrade", dataMajor, found[0].major, found[0].dir, dataMajor)
	}
	where := dir
	if where == "" {
		where = strings.Join(installPatterns, ", ") + " or PATH"
	}
	missing := fmt.Errorf("no PostgreSQL server programs (%s) in %s; run etc/setup.sh to install them, "+
		"or name a database of your own in the configuration", strings.Join(serverPrograms, ", "), where)
	return binaries{}, errors.Join(append([]error{missing}, problems...)...)
}

func inspect(dir string) (binaries, error) {
	for _, program := range serverPrograms {
		p := filepath.Join(dir, program)
		if st, err := os.Stat(p); err != nil {
			return binaries{}, err
		} else if st.IsDir() || st.Mode()&0o111 == 0 {
			return binaries{}, fmt.Errorf("%s is not a program", p)
		}
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return binaries{}, fmt.Errorf("ask %s/postgres for its version: %w", dir, err)
	}
	major, err := parseMajor(string(out))
	if err != nil {
		return binaries{}, fmt.Errorf("%s/postgres: %w", dir, err)
	}
	// The status line in postmaster.pid, by which we see that the server is ready, came with 10.
	if major < 10 {
		return binaries{}, fmt.Errorf("%s is PostgreSQL %d; 10 is the oldest that serves", dir, major)
	}
	return binaries{dir: dir, major: major}, nil
}

// parseMajor reads "postgres (PostgreSQL) 15.18 (Debian …)", also "17beta1".
func parseMajor(version string) (int, error) {
	_, rest, ok := strings.Cut(version, "(PostgreSQL) ")
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	major, err := strconv.Atoi(rest[:end])
	if !ok || err != nil {
		return 0, fmt.Errorf("unknown version text %q", strings.TrimSpace(version))
	}
	return major, nil
}
