package store_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/store"
	"fairslice/store/pgserver"
	"fairslice/store/storetest"
)

// proxy stands between a Store and PostgreSQL and can lose the server's next answer, with the connection.
type proxy struct {
	url  string
	lose atomic.Bool
	skip atomic.Int32 // answers that are let through before
	lost atomic.Int32
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	socket := func() string { return filepath.Join(q.Get("host"), ".s.PGSQL."+q.Get("port")) }
	server := socket()
	dir, err := os.MkdirTemp("", "proxy") // t.TempDir's paths are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	q.Set("host", dir)
	u.RawQuery = q.Encode()
	l, err := net.Listen("unix", socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &proxy{url: u.String()}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(client, server)
		}
	}()
	return p
}

func (p *proxy) serve(client net.Conn, server string) {
	defer client.Close()
	back, err := net.Dial("unix", server)
	if err != nil {
		return
	}
	defer back.Close()
	go func() {
		_, _ = io.Copy(back, client)
		back.Close()
	}()
	buf := make([]byte, 1<<16)
	for {
		n, err := back.Read(buf)
		if n > 0 && p.lose.Load() && p.skip.Add(-1) < 0 && p.lose.CompareAndSwap(true, false) {
			p.lost.Add(1)
			return // the server has answered, so it has committed; nobody hears it
		}
		if err != nil {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

func TestARetryAfterALostAnswerCommitsOnce(t *testing.T) {
	t.Parallel()
	target := storetest.URL(t)
	p := newProxy(t, target)
	w := newWriter(t, storetest.OpenURL(t, p.url))
	// The first batches also prepare the statements, which costs a round trip of its own.
	w.do(ev(0, 0, &queue.NodeJoined{Node: node("n1")}), ev(1, 0, submitted("a", nil)), ev(2, 0, submitted("b", nil)))
	w.do(ev(1, 0, started(1, "n1", 0, 50)))
	w.do(ev(1, 0, ended(1, 0, w.now)), ev(2, 0, started(1, "n1", 0, 200)))

	b := w.batch(ev(2, 0, ended(1, 0, w.now)), ev(3, 0, submitted("c", nil)))
	p.lose.Store(true)
	err := w.s.Commit(t.Context(), b)
	var temporary interface{ Temporary() bool }
	if !errors.As(err, &temporary) || !temporary.Temporary() || p.lost.Load() != 1 {
		t.Fatalf("Commit with a lost answer = %v (%d lost), want one that may pass", err, p.lost.Load())
	}
	for range 2 {
		if err := w.s.Commit(t.Context(), b); err != nil {
			t.Fatalf("the same batch again: %v", err)
		}
	}
	w.check()

	// The same numbers with another content are not the same batch.
	b.Events[1].By = "mallory"
	if err := w.s.Commit(t.Context(), b); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a changed batch: %v", err)
	}
	b.Events[1].By = "ada"
	more := w.batch(ev(3, 0, started(1, "n1", 0, 1)))
	more.Events = append(b.Events, more.Events...)
	if err := w.s.Commit(t.Context(), more); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a batch of which only a part is there: %v", err)
	}
}

func TestNothingAcknowledgedIsLostWhenPostgreSQLIsKilled(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "fairslice-kill-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL's user must get through
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	srv, err := pgserver.Start(t.Context(), pgserver.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s, err := store.Open(t.Context(), store.Config{URL: srv.URL(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	w := newWriter(t, s)
	w.do(ev(0, 0, &queue.NodeJoined{Node: node("n1")}))

	var acknowledged atomic.Int64
	stop := make(chan struct{})
	finished := make(chan error, 1)
	retries := 0
	go func() {
		defer close(finished)
		for job := queue.JobID(1); ; job++ {
			select {
			case <-stop:
				return
			default:
			}
			for _, b := range []*store.Batch{
				w.batch(ev(job, 0, submitted("", nil)), ev(job, 0, started(1, "n1", 0, 200))),
				w.batch(ev(job, 0, ended(1, 0, w.now))),
			} {
				for {
					err := s.Commit(t.Context(), b)
					if err == nil {
						break
					}
					if _, passes := errors.AsType[*store.Unavailable](err); !passes {
						finished <- err
						return
					}
					retries++
					time.Sleep(2 * time.Millisecond)
				}
				acknowledged.Store(b.Events[len(b.Events)-1].Seq)
			}
		}
	}()
	rolled := make(chan int, 1)
	go func() { // hours are summed up behind the commits, and killed with them
		n := 0
		defer func() { rolled <- n }()
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			if err := s.RollUpBy(t.Context(), 7); err == nil {
				n++
			} else if _, passes := errors.AsType[*store.Unavailable](err); !passes {
				t.Errorf("rolling up: %v", err)
				return
			}
		}
	}()
	for kill := range 4 {
		time.Sleep(time.Duration(150+70*kill) * time.Millisecond)
		if pid := srv.Pid(); pid != 0 {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				t.Fatal(err)
			}
		}
		before := acknowledged.Load()
		for deadline := time.Now().Add(30 * time.Second); acknowledged.Load() < before+5; time.Sleep(5 * time.Millisecond) {
			select {
			case err := <-finished:
				t.Fatal(err)
			default:
			}
			if time.Now().After(deadline) {
				t.Fatal("commits did not go on after a kill")
			}
		}
	}
	close(stop)
	if err := <-finished; err != nil {
		t.Fatal(err)
	}
	if retries == 0 {
		t.Error("no kill was noticed")
	}
	// Backends outlive a killed postmaster for a moment, so the last kill may only be felt now.
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := s.Load(t.Context()); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	w.check() // everything acknowledged, and nothing else
	times := <-rolled
	if err := s.RollUp(t.Context()); err != nil || times == 0 {
		t.Errorf("rolled up %d times, then %v", times, err)
	}
	check(t, s)
	t.Logf("%d events, %d retries", acknowledged.Load(), retries)
}

func TestAnOldTermWritesNothing(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	old, fresh := newWriter(t, storetest.OpenURL(t, url)), newWriter(t, storetest.OpenURL(t, url))
	if fresh.term != old.term+1 {
		t.Fatalf("terms %d and %d", old.term, fresh.term)
	}
	n := node("n1")
	for name, b := range map[string]*store.Batch{
		"with events": {Term: old.term, Events: []queue.Event{{Seq: 1, At: old.now, Body: &queue.NodeJoined{Node: n}}}},
		"rows only":   {Term: old.term, Nodes: []*nodes.Node{&n}},
		"no term":     {Nodes: []*nodes.Node{&n}},
	} {
		if err := old.s.Commit(t.Context(), b); !errors.Is(err, store.ErrStaleTerm) {
			t.Errorf("%s: %v, want ErrStaleTerm", name, err)
		}
	}
	fresh.do(ev(0, 0, &queue.NodeJoined{Node: n}))
	fresh.check()
}
