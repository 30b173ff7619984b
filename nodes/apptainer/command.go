package apptainer

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// Where the pieces lie in the container. The folder is made by Apptainer; no image has it.
const (
	insideDir   = "/.fairslice"
	insideEnter = insideDir + "/enter"
	insideStart = insideDir + "/start"
)

// JobDir is where the job finds Options.JobDir.
const JobDir = insideDir + "/job"

// Bind shows a file or directory of the host in the container.
type Bind struct {
	Source   string // absolute, on the host; must exist
	Dest     string // absolute, in the container; empty: the same as Source
	ReadOnly bool
}

// Options say how to run one job in a container. Binary, Image, Enter and StartFile are required.
type Options struct {
	Binary string // apptainer; see Find
	Image  string // the SIF file; see CheckImage
	Enter  string // the static program nodes/apptainer/enter, readable by the job's user

	// StartFile is what WriteStart wrote: arguments, environment, working directory. Readable by the job's user.
	StartFile string
	// JobDir is a directory of the job's user that the job finds at the constant of that name; empty: none. Its own path may lead
	// through what the container shows otherwise: through a link, or below /dev.
	JobDir string

	// Home and Workdir are shown at their own paths, writable. Either may be empty.
	Home    string
	Workdir string
	Binds   []Bind
	// Scratch is a directory of the host for the container's /tmp and /var/tmp; the caller removes it. Empty: they
	// are in memory, and small (the site's "sessiondir max size", 64 MiB by default).
	Scratch string

	// Overlay is a file (see MakeOverlay) or directory of the host that takes what the job changes in the image; empty: it can
	// change nothing. As an ordinary user the job is root in a user namespace then (Fakeroot), as nobody else may write there.
	Overlay  string
	Fakeroot bool

	GPU     bool     // show the NVIDIA driver's libraries and devices
	Contain bool     // own /tmp and a minimal /dev; without it the host's are shared
	Extra   []string // further options for "apptainer exec"
}

// Command returns the argument vector and the environment to run Apptainer itself with; the job's own are in the
// start file. The process should be the leader of a new process group or session.
//
// There is no PID namespace on purpose: the host sees the job's processes under their real ids, so signals,
// cgroups and the GPU watchdog (NVML names host pids) reach each of them, and the first process of the
// job needs no init above it. Apptainer's own processes end with it.
func Command(o Options) (argv, env []string, err error) {
	var problems []error
	for name, p := range map[string]string{"Binary": o.Binary, "Image": o.Image, "Enter": o.Enter, "StartFile": o.StartFile} {
		if !path.IsAbs(p) {
			problems = append(problems, fmt.Errorf("%s %q is not an absolute path", name, p))
		}
	}

	// Silent leaves errors and drops notes and warnings, which would land in the job's own stderr.
	argv = []string{o.Binary, "--silent", "exec", "--cleanenv", "--no-eval", "--no-home"}
	if o.Contain {
		argv = append(argv, "--contain")
	}
	if o.GPU {
		argv = append(argv, "--nv")
	}
	if o.Overlay != "" {
		argv = append(argv, "--overlay", o.Overlay)
	}
	if o.Fakeroot {
		// Not with the program fakeroot, which lies about owners to those programs only that load its library.
		argv = append(argv, "--fakeroot", "--ignore-fakeroot-command")
	}
	if o.Scratch != "" {
		argv = append(argv, "--workdir", o.Scratch)
	}
	if o.Workdir != "" {
		// Enter goes there too, and fails if it cannot; Apptainer would go elsewhere without a word.
		argv = append(argv, "--pwd", o.Workdir)
	} else {
		argv = append(argv, "--pwd", "/")
	}

	for _, b := range o.binds() {
		mount, err := mountOption(b)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		argv = append(argv, "--mount", mount)
	}
	argv = append(argv, o.Extra...)
	argv = append(argv, o.Image, insideEnter)
	if len(problems) > 0 {
		return nil, nil, fmt.Errorf("build the command of a contained run: %w", errors.Join(problems...))
	}

	home := o.Home
	if home == "" {
		home = "/"
	}
	// Nothing of the daemon's or the user's environment may steer Apptainer (APPTAINER_BIND and its like). The sbin
	// folders hold tools it looks for.
	env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", "HOME=" + home, "LC_ALL=C"}
	return argv, env, nil
}

// binds lists all mounts in the order to make them: a later one may lie inside an earlier one.
func (o Options) binds() []Bind {
	var all []Bind
	if o.Home != "" {
		all = append(all, Bind{Source: o.Home})
	}
	// Inside the home it is there already.
	if o.Workdir != "" && !within(o.Workdir, o.Home) {
		all = append(all, Bind{Source: o.Workdir})
	}
	all = append(all, o.Binds...)
	if o.JobDir != "" {
		all = append(all, Bind{Source: o.JobDir, Dest: JobDir})
	}
	return append(all, Bind{o.Enter, insideEnter, true}, Bind{o.StartFile, insideStart, true})
}

func within(p, dir string) bool {
	return dir != "" && (p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/"))
}

// mountOption writes a bind in the form of --mount: one line of comma-separated values, so that commas, colons,
// spaces and quotes in paths survive, as they do not in --bind.
func mountOption(b Bind) (string, error) {
	if b.Dest == "" {
		b.Dest = b.Source
	}
	for _, p := range []string{b.Source, b.Dest} {
		if !path.IsAbs(p) {
			return "", fmt.Errorf("bind %q to %q: not an absolute path", b.Source, b.Dest)
		}
		if strings.ContainsAny(p, "\n\r\x00") {
			return "", fmt.Errorf("bind %q to %q: a line break in a path", b.Source, b.Dest)
		}
	}
	fields := []string{"type=bind", "source=" + b.Source, "destination=" + b.Dest}
	if b.ReadOnly {
		fields = append(fields, "ro")
	}
	for i, f := range fields {
		fields[i] = `"` + strings.ReplaceAll(f, `"`, `""`) + `"`
	}
	return strings.Join(fields, ","), nil
}
