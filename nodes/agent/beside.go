package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"fairslice/nodes/session"
	"fairslice/nodes/shepherd"
	"fairslice/queue"
)

// serveBeside does something beside the job, in its surroundings (package session), and ties p to it. It lasts until that
// has ended, the job has, or the other side goes.
func (t *attempt) serveBeside(o queue.PipeOrder, p queue.Pipe) error {
	q, err := requestOf(o)
	if err != nil {
		return err
	}
	if q.App != nil && q.App.Start != "" {
		q.Ports = t.claimPorts()
	}
	conn, err := t.openBeside(q)
	if err != nil {
		t.releasePorts(q.Ports)
	}
	var no *session.RefusedError
	switch {
	case errors.As(err, &no) && (q.Run != nil || q.Copy != nil): // what a shell says, and ends with, when it cannot run a command
		_ = p.Send(queue.PipeOutput{Err: []byte("fairslice: " + no.Text + "\n")}) // nobody may listen any more
		_ = p.Send(queue.PipeOutput{Exited: true, Status: shellStatus(no.Kind) << 8})
		return nil
	case err != nil:
		return err
	}
	defer conn.Close()
	if p.Send(queue.PipeOutput{}) != nil { // the user's input waits for it
		return nil
	}
	if q.Run != nil && q.Run.TTY {
		defer t.joinTerminals(p)()
	}
	go func() { // from the user; ends with the stream
		defer conn.Close()
		for over := false; ; {
			f, err := p.Recv()
			if err != nil {
				return
			}
			if !over { // what comes too late is dropped: the last output is still on its way
				over = give(conn, f) != nil
			}
		}
	}()
	for {
		out, err := conn.Next()
		if errors.As(err, &no) || err == nil && out.Exited {
			t.releasePorts(q.Ports) // else the app may still be starting
		}
		switch {
		case errors.As(err, &no):
			return no
		case err != nil && q.Dial != nil:
			return nil // closed
		case err != nil:
			return errors.New("it has ended with the job, or without an exit status")
		}
		if p.Send(queue.PipeOutput{Data: out.Data, Err: out.Err, Taken: out.Taken, EOF: out.End, Exited: out.Exited, Status: int(out.Status)}) != nil {
			return nil // the user has gone
		}
		if out.Exited {
			return nil
		}
	}
}

func requestOf(o queue.PipeOrder) (*session.Request, error) {
	switch {
	case o.Kind == "exec" && o.Exec != nil:
		e := o.Exec
		return &session.Request{Run: &session.Run{Args: e.Args, Env: e.Env, Dir: e.Dir, TTY: e.TTY, Rows: o.Rows, Cols: o.Cols, Term: e.Term}}, nil
	case o.Kind == "copy" && o.Copy != nil:
		c := o.Copy
		return &session.Request{Copy: &session.Copy{Paths: c.Paths, To: c.To, Into: c.Into, Recursive: c.Recursive}}, nil
	case o.Kind == "dial" && o.Dial != nil:
		return &session.Request{Dial: &session.Dial{Port: o.Dial.Port, Path: o.Dial.Path, Own: o.Dial.Own}}, nil
	case o.Kind == "app" && o.App != nil:
		return &session.Request{App: o.App}, nil
	case o.Kind == "snapshot" && o.Snapshot != nil:
		return &session.Request{Snapshot: &session.Snapshot{Labels: o.Snapshot.Labels}}, nil
	}
	return nil, fmt.Errorf("an order to %s that does not say what", o.Kind)
}

// give passes on what the user sends.
func give(conn *session.Conn, f queue.PipeFrame) error {
	switch {
	case f.EOF:
		return conn.EndInput()
	case f.Signal != "":
		if n := queue.SignalNumber(f.Signal); n != 0 {
			return conn.Signal(n)
		}
		return nil
	case f.Rows > 0 && f.Cols > 0:
		return conn.Resize(f.Rows, f.Cols)
	case len(f.Data) > 0:
		return conn.Input(f.Data)
	}
	return nil
}

func shellStatus(k session.Refusal) int {
	switch k {
	case session.NotFound:
		return exitNotFound
	case session.Denied:
		return exitCannotRun
	}
	return 255
}

const (
	// besideSuffix makes the shepherd's key of the server that noded has started.
	besideSuffix = ".beside"
	// besideWait is how long a job may take to start, and its server with it.
	besideWait = 15 * time.Second
	// listenWait is how long a server may take from making its socket to listening there.
	listenWait  = time.Second
	besideEvery = 10 * time.Millisecond
)

var errNotYet = errors.New("Not yet started.")

// openBeside reaches the server beside the job. In a container it begins with the job; on the bare node it is started
// by whoever needs it first, since most jobs never do. A job that is just starting is waited for.
func (t *attempt) openBeside(q *session.Request) (*session.Conn, error) {
	began := time.Now()
	var refusing time.Time // since when nobody listens at the socket
	for {
		r := t.snapshot()
		switch {
		case r.Stage == ended:
			return nil, errors.New("Already finished.")
		case r.Stopped:
			return nil, errors.New("It is suspended: bresume lets it go on.")
		case r.Stage == running:
			c, err := shepherd.DialAs(t.cred(), filepath.Join(t.jobDir(), session.SocketName), time.Second)
			if err == nil {
				return session.Open(c, q)
			}
			refused := errors.Is(err, syscall.ECONNREFUSED)
			if refused && refusing.IsZero() {
				refusing = time.Now()
			}
			contained := r.Assignment.ImageFile != "" || r.Assignment.Image != nil
			switch {
			case !refused && !errors.Is(err, fs.ErrNotExist):
				return nil, err
			case !contained:
				if err := t.startServer(); err != nil && err != errNotYet {
					return nil, err
				}
			case refused && time.Since(refusing) > listenWait, t.a.cfg.Now().Sub(r.Began) > besideWait:
				return nil, errors.New("Nothing can run beside this job: its server is not there (it needs Linux 5.3, or somebody has ended it).")
			}
		}
		if time.Since(began) > besideWait {
			return nil, errNotYet
		}
		select {
		case <-t.gone:
			return nil, errors.New("Already finished.")
		case <-t.a.ctx.Done():
			return nil, t.a.ctx.Err()
		case <-time.After(besideEvery):
		}
	}
}

// startServer starts the server of a job on the bare node, with the job's rights and environment, in its group. It
// does nothing where one runs already.
func (t *attempt) startServer() error {
	t.serving.Lock()
	defer t.serving.Unlock()
	if t.server != nil {
		select {
		case <-t.server: // it was killed
			t.a.flock.forget(t.key + besideSuffix)
			t.server = nil
		default:
			return nil
		}
	}
	r := t.snapshot()
	as := r.Assignment
	t.mu.Lock()
	group := t.group
	t.mu.Unlock()
	if group == nil {
		return errNotYet // it is being taken up again
	}
	env := append(t.environment(as, r.CWD), group.Env()...)
	if f, err := t.fenceOf(&as); err != nil {
		return err
	} else if f != nil {
		fenced, err := t.bare(f)
		if err != nil {
			return err
		}
		env = override(env, fenced...)
	}
	args := append(limits(as.Spec.Limits), t.a.cfg.Enter)
	s := shepherd.Start{
		Key: t.key + besideSuffix, Argv: append(args, session.Args(t.jobDir(), r.CWD, r.Pid)...), Dir: r.CWD, Env: env,
		UID: as.Owner.UID, GID: as.Owner.GID, Groups: as.Owner.Groups, Setuid: t.a.cfg.SwitchUser, Umask: as.Spec.Umask, Cgroup: group.Ref(),
	}
	ctx, cancel := context.WithTimeout(t.a.ctx, 10*time.Second)
	defer cancel()
	exits, err := t.startBeside(ctx, s)
	if err != nil {
		return fmt.Errorf("start the server beside the job: %w", err)
	}
	t.server = exits
	return nil
}

// forgetServer is for the end of the attempt, whose group was killed, and with it the server.
func (t *attempt) forgetServer() {
	t.serving.Lock()
	defer t.serving.Unlock()
	switch {
	case t.server != nil:
		t.a.flock.forgetAfter(t.key+besideSuffix, t.server)
		t.server = nil
	case t.restored:
		t.a.flock.discard(t.key + besideSuffix)
	}
}
