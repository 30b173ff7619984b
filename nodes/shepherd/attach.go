package shepherd

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// view serves one attached connection until it ends or the job's end has been told.
func (t *terminal) view(conn *net.UnixConn, pid func() int) {
	v := &viewer{}
	t.mu.Lock()
	for _, c := range t.chunks {
		v.pending = appendFrame(v.pending, c.kind, c.data)
	}
	t.viewers[v] = true
	t.seen = true
	t.changed.Broadcast()
	t.mu.Unlock()

	read := make(chan struct{})
	go func() {
		defer close(read)
		t.takeInput(conn, v, pid)
		t.mu.Lock()
		v.gone = true
		t.changed.Broadcast()
		t.mu.Unlock()
	}()
	t.passOn(conn, v)
	conn.Close()
	t.mu.Lock()
	delete(t.viewers, v)
	t.fit()
	t.changed.Broadcast()
	t.mu.Unlock()
	<-read
}

// passOn writes what is pending until the viewer is gone or has been told the end.
func (t *terminal) passOn(conn *net.UnixConn, v *viewer) {
	for {
		t.mu.Lock()
		for len(v.pending) == 0 && !v.gone && !t.finished {
			t.changed.Wait()
		}
		frames, last, limited := v.pending, t.finished, t.tty || t.exited != nil
		v.pending = nil
		if last {
			frames = appendJSON(frames, frameExited, *t.exited)
		}
		gone := v.gone
		t.changed.Broadcast()
		t.mu.Unlock()
		if gone {
			return
		}
		// A pipe's reader may take its time, like that of any pipe; a terminal is shared.
		for len(frames) > 0 {
			if limited {
				conn.SetWriteDeadline(time.Now().Add(patience))
			}
			n, err := conn.Write(frames[:min(len(frames), 64<<10)])
			if err != nil {
				return
			}
			frames = frames[n:]
		}
		if last {
			return
		}
	}
}

// takeInput carries out what the viewer sends. Errors mean that the job takes no more input, which is no
// reason to stop the viewer from seeing output.
func (t *terminal) takeInput(conn *net.UnixConn, v *viewer, pid func() int) {
	for {
		kind, payload, err := readFrame(conn)
		if err != nil {
			return
		}
		switch kind {
		case frameInput:
			t.input.Write(payload)
		case frameEOF:
			if t.tty {
				t.input.Write([]byte{4}) // what the terminal's user would type
			} else {
				t.input.Close()
			}
		case frameResize:
			t.resize(v, payload)
		case frameHangup:
			if t.tty {
				t.input.Close() // the kernel sends SIGHUP
			} else if p := pid(); p > 0 {
				unix.Kill(-p, unix.SIGHUP)
			}
		}
	}
}
