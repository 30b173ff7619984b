package apptainer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Shells' exit statuses for a command that is not there, and for one that cannot be run.
const (
	exitNotFound  = 127
	exitCannotRun = 126
)

// defaultPath serves a job without a PATH; it is the one Apptainer gives to containers.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// driverLibs is where --nv puts the driver's libraries.
const driverLibs = "/.singularity.d/libs"

// Enter runs inside the container and becomes the job; it does not return. When it cannot, it says why on stderr and
// on StartedFD, and exits 127 (not found) or 126. Only the program nodes/apptainer/enter calls it, with a function
// that says why the image around it cannot be fenced, or nothing.
func Enter(unfit func() string) {
	err := enter(unfit)
	fmt.Fprintln(os.Stderr, "fairslice: cannot start the job:", err)
	if errors.Is(err, fs.ErrNotExist) {
		os.Exit(exitNotFound)
	}
	os.Exit(exitCannotRun)
}

func enter(unfit func() string) error {
	b, err := os.ReadFile(insideStart)
	if err != nil {
		return err
	}
	s, err := decodeStart(b)
	if err != nil {
		return err
	}
	tell := func(string) error { return nil }
	if s.StartedFD != 0 {
		syscall.CloseOnExec(s.StartedFD)
		tell = func(text string) error {
			_, err := syscall.Write(s.StartedFD, []byte(text+"\n"))
			return err
		}
	}
	err = s.become(tell, unfit)
	// Best effort: the exit status and the missing "started" tell it too.
	_ = tell(err.Error())
	return err
}

// become turns this process into the job; it returns only errors.
func (s Start) become(tell func(string) error, unfit func() string) error {
	env := s.environment(os.Environ())
	if s.Dir == "" {
		s.Dir = "/"
	}
	if err := os.Chdir(s.Dir); err != nil {
		return err
	}
	program, err := findProgram(s.Args[0], env)
	if err != nil {
		return err
	}
	if s.Fence.Probe != "" {
		if err := s.Fence.prove(unfit); err != nil {
			return fmt.Errorf("the GPU slice is not fenced: %w", err)
		}
	}
	_ = s.startBeside(env) // a job without it is a job: whoever asks for it later hears that it is not there
	if err := tell(startedWord); err != nil {
		return fmt.Errorf("say that the job starts: %w", err)
	}
	err = syscall.Exec(program, s.Args, env)
	if errors.Is(err, syscall.ENOEXEC) {
		// A script without "#!": what every shell, and so every user, takes for granted.
		err = syscall.Exec("/bin/sh", append([]string{"sh", program}, s.Args[1:]...), env)
	}
	return fmt.Errorf("run %s: %w", program, err)
}

// startBeside starts enter's own program once more, under the name that it has there. The new process is no child of this
// one, which becomes the job and may wait for all its children, but of Apptainer's, which ends with the job.
func (s Start) startBeside(env []string) error {
	if len(s.Beside) == 0 {
		return nil
	}
	job, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("a descriptor of the job: %w", err)
	}
	defer unix.Close(job)
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(null)
	// Not a session of its own: the shepherd knows a job that it has lost by being the leader of one.
	_, err = syscall.ForkExec(insideEnter, s.Beside, &syscall.ProcAttr{Env: env, Files: []uintptr{uintptr(null), uintptr(null), uintptr(null), uintptr(job)},
		Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_PARENT, Setpgid: true}})
	return err
}

// environment is what the job sees: image is the environment enter itself was given.
func (s Start) environment(image []string) []string {
	var env []string
	if s.ImageEnv {
		named := make(map[string]bool, len(s.Env))
		for _, e := range s.Env {
			named[name(e)] = true
		}
		for _, e := range image {
			if !named[name(e)] {
				env = append(env, e)
			}
		}
	}
	env = append(env, s.Env...)
	if !s.GPU {
		return env
	}
	for i, e := range env {
		if value, ok := strings.CutPrefix(e, "LD_LIBRARY_PATH="); ok {
			if !strings.Contains(":"+value+":", ":"+driverLibs+":") {
				env[i] = strings.TrimSuffix(e, ":") + ":" + driverLibs
				if value == "" {
					env[i] = e + driverLibs
				}
			}
			return env
		}
	}
	return append(env, "LD_LIBRARY_PATH="+driverLibs)
}

func name(e string) string {
	n, _, _ := strings.Cut(e, "=")
	return n
}

// findProgram looks in the job's own PATH, in its own directory, as a shell there would.
func findProgram(command string, env []string) (string, error) {
	if strings.Contains(command, "/") {
		// Seen now, it is a start that failed, not a job that ended.
		st, err := os.Stat(command)
		if err == nil && (st.IsDir() || st.Mode()&0o111 == 0) {
			err = fmt.Errorf("%s: %w", command, fs.ErrPermission)
		}
		return command, err
	}
	list := defaultPath
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			list = value
		}
	}
	for _, dir := range strings.Split(list, ":") {
		if dir == "" {
			dir = "."
		}
		p := path.Join(dir, command)
		if !strings.Contains(p, "/") {
			p = "./" + p
		}
		if st, err := os.Stat(p); err == nil && !st.IsDir() && st.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s: not in PATH (%s) in the container: %w", command, list, fs.ErrNotExist)
}
