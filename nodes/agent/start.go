package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"fairslice/nodes/apptainer"
	"fairslice/nodes/cgroup"
	"fairslice/nodes/shepherd"
	"fairslice/queue"
)

// failure is why a command never ran.
type failure struct {
	code     string
	detail   string
	jobFault bool // the job ends; otherwise it waits again, elsewhere
	exitCode int
	verdict  queue.Verdict
}

func (f *failure) Error() string { return f.code + ": " + f.detail }

func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return &failure{code: "internal", detail: err.Error()}
}

// shells' exit statuses for a command that is not there, and for one that cannot be run.
const (
	exitNotFound  = 127
	exitCannotRun = 126
)

func (t *attempt) cred() shepherd.Cred {
	as := &t.rec.Assignment
	return shepherd.Cred{UID: as.Owner.UID, GID: as.Owner.GID, Groups: as.Owner.Groups, Setuid: t.a.cfg.SwitchUser, Umask: as.Spec.Umask}
}

func (t *attempt) groupLimits() cgroup.Limits {
	r := t.snapshot()
	l := cgroup.Limits{Memory: r.MemoryLimit, CPUs: float64(max(r.Assignment.Alloc[0].Slots, 1))}
	if g := t.a.cfg.GPUs; g != nil && g.Deny != nil && t.a.cgroups.CannotDeny() == "" {
		l.Deny = g.Deny(r.Assignment.Alloc[0].Slices)
	}
	return l
}

// start prepares the attempt and starts its command.
func (t *attempt) start(ctx context.Context) (<-chan exit, error) {
	r := t.snapshot()
	as := r.Assignment
	if err := t.fetchImage(ctx, &as); err != nil {
		return nil, err
	}
	group, err := t.a.cgroups.Create(t.key, t.groupLimits())
	if err != nil {
		return nil, &failure{code: "cgroup", detail: err.Error()}
	}
	t.group = group
	if err := t.makeJobDir(); err != nil {
		return nil, &failure{code: "spool", detail: err.Error()}
	}
	f, err := t.fenceOf(&as)
	if err != nil {
		return nil, err
	}
	if f != nil {
		if err := t.openRegion(f, &as); err != nil {
			return nil, err
		}
	}
	s, err := t.command(as, f)
	if err != nil {
		return nil, err
	}
	if err := t.preExec(ctx, as, s); err != nil {
		return nil, err
	}
	_ = os.Remove(t.proofFile()) // of an earlier try, or whatever the pre-execution command has made
	if s.Stdout.Path != "" && !s.Stdout.Truncate {
		r.StdoutFrom = t.sizeOf(s.Stdout.Path)
	}
	if s.Stderr.Path != "" && !s.Stderr.Truncate {
		r.StderrFrom = t.sizeOf(s.Stderr.Path)
	}
	// Not written before the start: whether the shepherd has started it, its own file says (resume).
	t.mu.Lock()
	t.rec.Stage, t.rec.StdoutFrom, t.rec.StderrFrom, t.rec.CWD = starting, r.StdoutFrom, r.StderrFrom, s.Dir
	t.mu.Unlock()
	st, exits, err := t.a.flock.start(ctx, s)
	if err != nil {
		return nil, t.startFailure(err, as)
	}
	return t.begun(ctx, f, st, exits)
}

// begun notes that the command runs, for a fenced one when its fence is proven.
func (t *attempt) begun(ctx context.Context, f *fence, st shepherd.Started, exits <-chan exit) (<-chan exit, error) {
	t.group.Know(st.Pid)
	if f != nil && f.shim {
		var err error
		if exits, err = t.proven(ctx, exits); err != nil {
			return nil, err
		}
	}
	t.started(st)
	return exits, nil
}

// started notes that the command runs. It is written down and reported soon, see tellLater: until then the shepherd's file
// says so, and a noded that dies finds it there.
func (t *attempt) started(st shepherd.Started) {
	t.mu.Lock()
	r := t.rec
	r.Stage, r.Pid, r.Began, r.Stdout, r.Stderr, r.untold = running, st.Pid, st.Began, st.StdoutPath, st.StderrPath, true
	if st.Fallback != "" {
		r.Note = "output goes to " + st.StdoutPath + ": " + st.Fallback
		r.StdoutFrom, r.StderrFrom = 0, 0
	}
	t.mu.Unlock()
}

// resume takes up an attempt of an earlier life of noded.
func (t *attempt) resume(ctx context.Context) (<-chan exit, error) {
	if g, ok := t.a.cgroups.Open(t.key); ok {
		t.mu.Lock() // who wants something beside the job may be waiting for it
		t.group = g
		t.mu.Unlock()
		// Made again, so that it is as this noded would make it: an older one may have closed fewer devices.
		if _, err := t.a.cgroups.Create(t.key, t.groupLimits()); err != nil {
			t.a.cfg.Logger.Error("the group of a running job is not as it should be", "attempt", t.key, "error", err)
		}
	}
	st, was, exits, err := t.a.flock.resume(ctx, t.key)
	switch {
	case err != nil:
		return nil, &failure{code: "internal", detail: err.Error()}
	case was:
		if t.group == nil { // every process is gone, and with them the group where no cgroup keeps it
			if t.group, err = t.a.cgroups.Create(t.key, t.groupLimits()); err != nil {
				return nil, &failure{code: "cgroup", detail: err.Error()}
			}
		}
		return t.takeUp(ctx, st, exits)
	case t.snapshot().Stage == running:
		// It ran, and its files are gone: nobody knows how it ended.
		x := make(chan exit, 1)
		x <- exit{lost: true, detail: "the files of the job's keeper are gone", at: t.a.cfg.Now()}
		return x, nil
	}
	return t.start(ctx) // it was never started
}

// takeUp goes on with a command that an earlier noded has started.
func (t *attempt) takeUp(ctx context.Context, st shepherd.Started, exits <-chan exit) (<-chan exit, error) {
	as := t.snapshot().Assignment
	f, err := t.fenceOf(&as)
	if err != nil {
		return nil, err
	}
	if f != nil {
		if err := t.openRegion(f, &as); err != nil {
			// The job runs and has what it has mapped; the watchdog holds it to its memory.
			t.a.cfg.Logger.Error("slices of a running job are not measured", "attempt", t.key, "error", err)
		}
	}
	if t.snapshot().Stage == running {
		t.group.Know(st.Pid)
		if f != nil && f.shim {
			t.a.watchdog.enforced(t.key)
		}
		return exits, nil
	}
	t.mustUpdate(func(r *record) { r.CWD = r.Assignment.CWD })
	return t.begun(ctx, f, st, exits)
}

// startFailure sorts what the shepherd refused into what is the job's own fault and what is the node's.
func (t *attempt) startFailure(err error, as queue.Assignment) error {
	var se *shepherd.StartError
	if !errors.As(err, &se) {
		return &failure{code: "internal", detail: err.Error()}
	}
	switch se.Code {
	case shepherd.BadCwd:
		return &failure{code: "cwd", detail: se.Msg, jobFault: true, verdict: queue.TermCWDNotExist, exitCode: exitNotFound}
	case shepherd.BadExec:
		code := exitCannotRun
		if errors.Is(err, fs.ErrNotExist) {
			code = exitNotFound
		}
		return &failure{code: "exec", detail: se.Msg, jobFault: true, exitCode: code}
	case shepherd.BadStdin, shepherd.BadOutput:
		return &failure{code: string(se.Code), detail: se.Msg, jobFault: true, exitCode: 1, verdict: queue.TermOther}
	}
	return &failure{code: string(se.Code), detail: se.Msg}
}

// makeJobDir writes the script and the host file where the job's user, and nobody else, can read them.
func (t *attempt) makeJobDir() error {
	as := t.rec.Assignment
	dir := t.jobDir()
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	files := map[string]struct {
		data []byte
		mode os.FileMode
	}{"script": {as.Script, 0o500}, "hosts": {hostFile(as), 0o400}}
	for name, f := range files {
		p := filepath.Join(dir, name)
		if t.restored {
			_ = os.Remove(p) // of an earlier try; it may be read-only
		}
		if err := os.WriteFile(p, f.data, f.mode); err != nil {
			return err
		}
		if err := t.give(p); err != nil {
			return err
		}
	}
	return t.give(dir)
}

// give makes a file or directory the job's user's.
func (t *attempt) give(path string) error {
	owner := &t.rec.Assignment.Owner
	if !t.a.cfg.SwitchUser || owner.UID == os.Geteuid() && owner.GID == os.Getegid() {
		return nil
	}
	return os.Chown(path, owner.UID, owner.GID)
}

// hostFile is LSB_DJOB_HOSTFILE: one name for each slot.
func hostFile(as queue.Assignment) []byte {
	var b strings.Builder
	for _, a := range as.Alloc {
		for range a.Slots {
			b.WriteString(string(a.Node) + "\n")
		}
	}
	return []byte(b.String())
}

// command is what the shepherd is to run.
func (t *attempt) command(as queue.Assignment, f *fence) (shepherd.Start, error) {
	spec := as.Spec
	cwd, err := t.workingDir(as)
	if err != nil {
		return shepherd.Start{}, err
	}
	dir := t.jobDir()
	if as.ImageFile != "" {
		dir = apptainer.JobDir
	}
	s := shepherd.Start{
		Key: t.key, Argv: scriptArgv(as, filepath.Join(dir, "script")), Dir: cwd,
		Env: append(t.environment(as, cwd), t.group.Env()...),
		UID: as.Owner.UID, GID: as.Owner.GID, Groups: as.Owner.Groups, Setuid: t.a.cfg.SwitchUser, Umask: spec.Umask,
		Stdin: as.Stdin, Cgroup: t.group.Ref(),
	}
	switch {
	case spec.Interactive.HasPty():
		s.TTY, s.Rows, s.Cols = true, spec.Rows, spec.Cols
	case spec.Interactive == queue.Pipes:
		s.Pipe = true
	default:
		s.Fallback = filepath.Join(as.Owner.Home, ".lsbatch")
		s.Stdout = shepherd.Output{Path: as.Stdout, Truncate: spec.Overwrite}
		s.Stderr = shepherd.Output{Path: as.Stderr, Truncate: spec.OverwriteE}
		if as.Stdout == "" {
			// LSF mails such output. Without a mailer it is kept where its fallback lies.
			s.Stdout.Path = filepath.Join(s.Fallback, t.id.String()+".out")
			t.makeFallback(s.Fallback)
		}
	}
	switch {
	case as.ImageFile != "":
		if s, err = t.contained(as, s, f); err != nil {
			return s, err
		}
	case f != nil:
		env, err := t.bare(f)
		if err != nil {
			return s, err
		}
		s.Env = override(s.Env, env...)
	}
	s.Argv = append(limits(spec.Limits), s.Argv...)
	return s, nil
}

func (t *attempt) makeFallback(dir string) {
	if err := shepherd.MkdirAs(t.cred(), dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		t.a.cfg.Logger.Debug("no directory for output", "attempt", t.key, "error", err)
	}
}

// workingDir is the job's directory; -cwd makes what is missing, with the user's rights.
func (t *attempt) workingDir(as queue.Assignment) (string, error) {
	if !as.CreateCWD {
		return as.CWD, nil
	}
	var missing []string
	for d := as.CWD; d != "/" && d != "."; d = filepath.Dir(d) {
		f, err := shepherd.OpenAs(t.cred(), d, os.O_RDONLY|syscall.O_DIRECTORY, 0)
		if err == nil {
			_ = f.Close()
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break // the shepherd says what is wrong with it
		}
		missing = append(missing, d)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := shepherd.MkdirAs(t.cred(), missing[i], 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", &failure{code: "cwd", detail: err.Error(), jobFault: true, verdict: queue.TermCWDNotExist, exitCode: exitNotFound}
		}
	}
	return as.CWD, nil
}

// scriptArgv runs the spooled script: by its #! line, by the shell of -L, or by /bin/sh.
func scriptArgv(as queue.Assignment, script string) []string {
	if as.Spec.Shell != "" {
		return []string{as.Spec.Shell, script}
	}
	line, _, _ := strings.Cut(string(as.Script[:min(len(as.Script), 4096)]), "\n")
	if rest, ok := strings.CutPrefix(line, "#!"); ok {
		// As the kernel reads it: the interpreter, and at most one argument.
		interp, arg, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if interp != "" {
			if arg = strings.TrimSpace(arg); arg != "" {
				return []string{interp, arg, script}
			}
			return []string{interp, script}
		}
	}
	return []string{"/bin/sh", script}
}

func (t *attempt) sizeOf(path string) int64 {
	if path == os.DevNull {
		return 0
	}
	f, err := shepherd.OpenAs(t.cred(), path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not hold us up
	if err != nil {
		return 0
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return 0
	}
	return st.Size()
}
