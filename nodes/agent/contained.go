package agent

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"fairslice/nodes/apptainer"
	"fairslice/nodes/session"
	"fairslice/nodes/shepherd"
	"fairslice/queue"
)

// contained turns s into a run inside the image.
func (t *attempt) contained(as queue.Assignment, s shepherd.Start, f *fence) (shepherd.Start, error) {
	bin, err := apptainer.Find(t.a.cfg.Apptainer)
	if err != nil {
		return s, &failure{code: "apptainer", detail: err.Error()}
	}
	if err := t.checkImage(as); err != nil {
		return s, err
	}
	startFile := filepath.Join(t.jobDir(), "start")
	o := apptainer.Options{
		Binary: bin, Image: as.ImageFile, Enter: t.a.cfg.Enter, StartFile: startFile, Contain: true,
		JobDir: t.jobDir(),
	}
	start := apptainer.Start{Args: s.Argv, Env: override(s.Env, jobFiles(apptainer.JobDir)...), Dir: s.Dir, ImageEnv: true,
		Beside: session.Args(apptainer.JobDir, s.Dir, 0)}
	if f != nil {
		if err := t.place(f, &as, &o, &start); err != nil {
			return s, err
		}
	}
	if err := t.overlay(as, &o); err != nil {
		return s, err
	}
	if err = apptainer.WriteStart(startFile, start); err != nil {
		return s, &failure{code: "exec", detail: err.Error(), jobFault: true, exitCode: exitCannotRun}
	}
	if t.a.cfg.SwitchUser {
		if err := os.Chown(startFile, as.Owner.UID, as.Owner.GID); err != nil {
			return s, err
		}
	}
	if t.a.cfg.BindHome && as.Owner.Home != "" && as.Owner.Home != "/" {
		if _, err := os.Stat(as.Owner.Home); err == nil {
			o.Home = as.Owner.Home
		}
	}
	if t.a.cfg.BindCWD && s.Dir != "/" {
		o.Workdir = s.Dir
	}
	for _, b := range as.Binds {
		src, rest, _ := strings.Cut(b, ":")
		dst, mode, _ := strings.Cut(rest, ":")
		o.Binds = append(o.Binds, apptainer.Bind{Source: src, Dest: dst, ReadOnly: mode == "ro"})
	}
	argv, env, err := apptainer.Command(o)
	if err != nil {
		return s, &failure{code: "image", detail: err.Error(), jobFault: true, exitCode: exitCannotRun, verdict: queue.TermOther}
	}
	s.Argv = argv
	s.Env = append(env, t.group.Env()...)
	return s, nil
}

// checkImage opens the image with the user's rights and looks whether it is one.
func (t *attempt) checkImage(as queue.Assignment) error {
	f, err := shepherd.OpenAs(t.cred(), as.ImageFile, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err == nil {
		_ = f.Close()
		err = apptainer.CheckImage(as.ImageFile)
	}
	if err != nil {
		return &failure{code: "image", detail: err.Error(), jobFault: true, exitCode: exitCannotRun, verdict: queue.TermOther}
	}
	return nil
}
