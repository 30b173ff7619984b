package shepherd

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func attach(t *testing.T, c *Client, key string) *Terminal {
	t.Helper()
	term, err := c.Attach(key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { term.Close() })
	term.conn.SetDeadline(time.Now().Add(20 * time.Second))
	return term
}

// until reads from a view until its output has this text.
func until(t *testing.T, term *Terminal, want string) string {
	t.Helper()
	var all strings.Builder
	for !strings.Contains(all.String(), want) {
		_, data, err := term.Next()
		if err != nil {
			t.Fatalf("%v, after %q", err, all.String())
		}
		all.Write(data)
	}
	return all.String()
}

func terminalJob(key, script string) Start {
	st := shell(key, script)
	st.TTY, st.Rows, st.Cols = true, 24, 80
	return st
}

func TestTerminalIsOne(t *testing.T) {
	c := spawnIn(t, t.TempDir())
	start(t, c, terminalJob("1", `test -t 0 && test -t 1 && test -t 2 && echo all; stty size; read x; echo "got $x"; stty size; echo > /dev/tty; read y; exit 3`))
	one := attach(t, c, "1")
	until(t, one, "24 80")
	if err := one.Resize(50, 132); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	until(t, one, "50 132")
	other := attach(t, c, "1")
	if got := until(t, other, "50 132"); !strings.HasPrefix(got, "all\r\n24 80\r\n") || !strings.Contains(got, "got hello") {
		t.Errorf("replay: %q", got)
	}
	if err := other.CloseWrite(); err != nil { // Control-D: read fails, the script goes on
		t.Fatal(err)
	}
	for _, term := range []*Terminal{one, other} {
		if _, err := io.Copy(io.Discard, term); err != nil {
			t.Error(err)
		}
		if e, ok := term.Exited(); !ok || syscall.WaitStatus(e.WaitStatus).ExitStatus() != 3 {
			t.Errorf("%+v %v", e, ok)
		}
	}
	late := attach(t, c, "1") // ended, not yet acknowledged
	if all, err := io.ReadAll(late); err != nil || !bytes.Contains(all, []byte("got hello")) {
		t.Errorf("%q %v", all, err)
	}
	exit(t, c)
	if _, err := c.Attach("1"); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

// The smallest view counts, in each direction, and when it leaves the rest's.
func TestTheSmallestViewCounts(t *testing.T) {
	c := spawnIn(t, t.TempDir())
	start(t, c, terminalJob("1", `trap 'echo "<$(stty size)>"' WINCH; echo up; while :; do sleep 0.01; done`))
	one, two, three := attach(t, c, "1"), attach(t, c, "1"), attach(t, c, "1")
	until(t, one, "up")
	size := func(v *Terminal, rows, cols uint16, want string) {
		t.Helper()
		if err := v.Resize(rows, cols); err != nil {
			t.Fatal(err)
		}
		until(t, one, want)
	}
	size(one, 50, 132, "<50 132>")
	size(two, 60, 100, "<50 100>")
	size(three, 40, 200, "<40 100>")
	size(two, 30, 120, "<30 120>")
	size(two, 70, 90, "<40 90>")
	two.Close()
	until(t, one, "<40 132>")
	three.Close()
	until(t, one, "<50 132>")
	late := attach(t, c, "1") // who has said no size yet has no say
	size(late, 0, 5, "")
	size(one, 24, 80, "<24 80>")
	one.Close()
	if err := late.Resize(33, 91); err != nil {
		t.Fatal(err)
	}
	if got := until(t, late, "<33 91>"); strings.Contains(got, "<0 5>") {
		t.Errorf("%q", got)
	}
}

func TestTerminalOutputComesWholeBeforeTheExit(t *testing.T) {
	c := spawnIn(t, t.TempDir())
	start(t, c, terminalJob("1", `read x; seq 100000; echo the end`))
	term := attach(t, c, "1")
	if _, err := term.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(term)
	if err != nil || strings.Count(string(all), "\n") != 100_002 || !strings.HasSuffix(string(all), "the end\r\n") {
		t.Errorf("%d lines, %v", strings.Count(string(all), "\n"), err)
	}
}

func TestNobodyAttachedDoesNotBlock(t *testing.T) {
	c := spawnIn(t, t.TempDir())
	start(t, c, terminalJob("1", `seq 100000; echo the end; read x`))
	for _, ok := int64(0), false; !ok; {
		term := attach(t, c, "1")
		_, data, err := term.Next() // the replay is one or several frames; the last has the end once all is written
		for err == nil && !ok && len(data) > 0 {
			if ok = strings.Contains(string(data), "the end"); ok {
				break
			}
			_, data, err = term.Next()
		}
		if err != nil {
			t.Fatal(err)
		}
		term.Close()
	}
	term := attach(t, c, "1")
	if got := until(t, term, "the end"); len(got) < replay || len(got) > 2*replay {
		t.Errorf("replay of %d bytes", len(got))
	}
}

func TestHangup(t *testing.T) {
	c := spawnIn(t, t.TempDir())
	start(t, c, terminalJob("1", "echo up; exec sleep 300"))
	term := attach(t, c, "1")
	until(t, term, "up")
	if err := term.Hangup(); err != nil {
		t.Fatal(err)
	}
	if ws := syscall.WaitStatus(exit(t, c).WaitStatus); ws.Signal() != syscall.SIGHUP {
		t.Error(ws)
	}
}

func TestBackgroundProcessDoesNotHoldTheExit(t *testing.T) {
	c := spawnIn(t, t.TempDir())
	st := shell("1", "echo before; (exec setsid sleep 30) & echo after; exit 2")
	st.Pipe = true
	start(t, c, st)
	term := attach(t, c, "1")
	all, err := io.ReadAll(term)
	if e, ok := term.Exited(); err != nil || string(all) != "before\nafter\n" || !ok || syscall.WaitStatus(e.WaitStatus).ExitStatus() != 2 {
		t.Errorf("%q %v %+v", all, err, e)
	}
}

func TestPipeLosesNothing(t *testing.T) {
	c := spawnIn(t, t.TempDir())
	data := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16) // 1 MiB, far more than is kept for replay
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	st := shell("1", "cat "+file+"; echo oops >&2; cat; exit 4")
	st.Pipe = true
	start(t, c, st)
	time.Sleep(50 * time.Millisecond) // whatever the job does before the first view is made
	term := attach(t, c, "1")
	go func() {
		term.Write(data)
		term.CloseWrite()
	}()
	var out, errs bytes.Buffer
	for {
		stream, piece, err := term.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if stream == Stderr {
			errs.Write(piece)
		} else {
			out.Write(piece)
		}
	}
	if !bytes.Equal(out.Bytes(), append(bytes.Clone(data), data...)) || errs.String() != "oops\n" {
		t.Errorf("%d bytes of %d, %q", out.Len(), 2*len(data), errs.String())
	}
	if e, ok := term.Exited(); !ok || syscall.WaitStatus(e.WaitStatus).ExitStatus() != 4 {
		t.Errorf("%+v", e)
	}
}

func TestPipeGoesOnAfterTheViewIsGone(t *testing.T) {
	c := spawnIn(t, t.TempDir())
	st := shell("1", "echo up; read x; seq 100000; exit 5")
	st.Pipe = true
	start(t, c, st)
	term := attach(t, c, "1")
	until(t, term, "up")
	if _, err := term.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	term.Close()
	if ws := syscall.WaitStatus(exit(t, c).WaitStatus); ws.ExitStatus() != 5 {
		t.Error(ws)
	}
}

func TestUserOwnsItsTerminal(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	c := spawnIn(t, t.TempDir())
	st := terminalJob("1", `stat -c %u $(tty); echo reopened > $(tty); exit 0`)
	st.Setuid, st.UID, st.GID = true, stranger, stranger
	start(t, c, st)
	term := attach(t, c, "1")
	if all, err := io.ReadAll(term); err != nil || string(all) != "12345\r\nreopened\r\n" {
		t.Errorf("%q %v", all, err)
	}
}
