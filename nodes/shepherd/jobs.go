package shepherd

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// start starts a job and answers. However it goes, the answer comes after the facts are on disk.
func (s *server) start(c *control, id uint64, j *job, st Start) {
	select {
	case s.gate <- struct{}{}:
		defer func() { <-s.gate }()
	case <-time.After(time.Second):
		// Those before us hang, as on a file server that does not answer: that must not hold up everybody.
	}
	reply := answer{ID: id}
	started, failed := s.launch(j, st)
	if failed != nil {
		reply.Failed = failed
		s.mu.Lock()
		delete(s.jobs, j.key)
		s.endIfDone()
		s.mu.Unlock()
	} else {
		reply.Started = started
	}
	c.out.send(frameAnswer, reply)
}

func (s *server) launch(j *job, st Start) (*Started, *StartError) {
	if st.Setuid && os.Geteuid() != 0 {
		return nil, startError(BadUser, "take on user", unix.EPERM)
	}
	fd, err := claim(s.dir, st.Key)
	if err == unix.EEXIST {
		return nil, startError(Exists, "start "+st.Key, err)
	} else if err != nil {
		return nil, startError(Internal, "start "+st.Key, err)
	}
	defer unix.Close(fd)
	l := &launch{Start: st, enter: s.enter}
	failed := s.launchClaimed(j, l, fd)
	if failed != nil {
		unix.Unlink(runFile(s.dir, st.Key))
		return nil, failed
	}
	return &l.report, nil
}

func (s *server) launchClaimed(j *job, l *launch, runFD int) *StartError {
	if l.TTY || l.Pipe {
		term, err := newTerminal(&l.Start)
		if err != nil {
			term.closeFiles()
			return startError(Internal, "open terminal", err)
		}
		l.term = term
	}
	result := make(chan *StartError, 1)
	go onExpendableThread(func() {
		failed := l.prepare()
		if failed == nil {
			failed = s.enterAndFork(j, l, runFD)
		}
		l.closeAll()
		result <- failed
	})
	failed := <-result
	if l.term != nil && failed != nil {
		l.term.closeFiles()
	}
	return failed
}

func (s *server) enterAndFork(j *job, l *launch, runFD int) *StartError {
	attr := &syscall.SysProcAttr{}
	if l.Cgroup != "" {
		done, err := l.enter(l.Cgroup, attr)
		if err != nil {
			return startError(Internal, "enter cgroup", err)
		}
		defer done()
	}
	s.children.Lock()
	defer s.children.Unlock()
	s.mu.Lock()
	canceled := j.canceled
	s.mu.Unlock()
	if canceled {
		return &StartError{Code: Canceled, Msg: "start " + l.Key + ": canceled"}
	}
	if _, err := unix.Write(runFD, []byte(forkMark)); err != nil {
		return startError(Internal, "start "+l.Key, err)
	}
	if failed := l.fork(attr); failed != nil {
		return failed
	}
	if err := writeLine(runFD, l.report); err != nil {
		// The job runs, and its status will be kept; only a daemon that did not hear the answer misses something.
		fmt.Fprintf(os.Stderr, "shepherd: write down %s: %v\n", l.Key, err)
	}
	s.mu.Lock()
	j.started = l.report
	s.byPid[l.report.Pid] = j
	if l.term != nil {
		j.term = l.term
		s.terminals[l.term] = true
	}
	s.mu.Unlock()
	if l.term != nil {
		l.term.run()
	}
	return nil
}

// reap waits for children, those that jobs left behind included. A job's status is written while the job is still a
// zombie: were the shepherd killed in between, its daemon could still ask for it.
func (s *server) reap(wake <-chan os.Signal) {
	for range wake {
		for {
			s.children.Lock()
			pid, ws, ru, err := peek(unix.P_ALL, 0, unix.WNOHANG)
			s.mu.Lock()
			j := s.byPid[pid]
			s.mu.Unlock()
			s.children.Unlock()
			if err != nil || pid == 0 {
				break
			}
			if j == nil {
				syscall.Wait4(pid, nil, 0, nil)
				continue
			}
			e := exitedOf(j.key, j.started.Began, time.Now(), ws, &ru)
			if err := writeStatus(s.dir, j.started, e); err != nil {
				// A full disk loses the file but not the status, which stays here until it is acknowledged.
				fmt.Fprintln(os.Stderr, "shepherd:", err)
			}
			s.children.Lock()
			syscall.Wait4(pid, nil, 0, nil)
			s.mu.Lock()
			delete(s.byPid, pid)
			j.exited = &e
			for c := range s.conns {
				c.out.send(frameExited, e)
			}
			s.mu.Unlock()
			s.children.Unlock()
			if j.term != nil {
				s.finishTerminal(j.term, e)
			}
		}
	}
}

func (s *server) finishTerminal(term *terminal, e Exited) {
	term.ended(e)
	go func() {
		term.waitFinished()
		s.dropIfIdle(term)
	}()
}
