package shepherd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// kill9 kills the shepherd as the kernel would, and returns when the daemon side knows.
func kill9(t *testing.T, c *Client) {
	t.Helper()
	if err := unix.Kill(c.Pid(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case _, ok := <-c.Events():
			if !ok {
				return
			}
		case <-deadline(t).Done():
			t.Fatal("the death of the shepherd is not seen")
		}
	}
}

// release lets a job that waits for this named pipe go on.
func release(t *testing.T, fifo string) {
	t.Helper()
	if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
}

func TestKilledShepherdLosesNoStatus(t *testing.T) {
	dir, work := t.TempDir(), t.TempDir()
	fifo := filepath.Join(work, "go")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	c := spawnIn(t, dir)
	ended := start(t, c, shell("1.ended", "exit 5"))
	<-c.Events()
	running := start(t, c, shell("1.running", "read x < "+fifo+"; exit 6"))
	unwritten := start(t, c, shell("1.unwritten", "kill -STOP $$; exit 7"))
	kill9(t, c)
	// As if it had been killed between the fork and the write.
	if err := os.Truncate(runFile(dir, "1.unwritten"), int64(len(forkMark))); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := ReadStarted(dir, "1.unwritten"); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
	for _, s := range []Started{running, unwritten} {
		if _, parent, err := ticksOf(s.Pid); err != nil || parent != os.Getpid() {
			t.Fatalf("job %d: parent %d, %v", s.Pid, parent, err)
		}
	}
	check := func(key string, code int, before func()) {
		t.Helper()
		wait, err := Adopt(dir, key)
		if err != nil {
			t.Fatal(err)
		}
		before()
		e, err := wait()
		if err != nil || syscall.WaitStatus(e.WaitStatus).ExitStatus() != code || e.Key != key {
			t.Errorf("%s: %+v, %v", key, e, err)
		}
		if disk, ok, err := ReadStatus(dir, key); err != nil || !ok || disk.WaitStatus != e.WaitStatus {
			t.Errorf("%s: on disk %+v %v %v", key, disk, ok, err)
		}
	}
	check("1.ended", 5, func() {})
	check("1.running", 6, func() { release(t, fifo) })
	check("1.unwritten", 7, func() {
		awaitStopped(t, unwritten.Pid) // a SIGCONT that comes before the SIGSTOP is lost
		unix.Kill(unwritten.Pid, unix.SIGCONT)
	})
	check("1.running", 6, func() {}) // again, from the disk
	if _, err := Adopt(dir, "1.never"); !errors.Is(err, ErrUnknown) {
		t.Errorf("adopt what never was: %v", err)
	}
	for _, s := range []Started{ended, running, unwritten} {
		if ticks, _, err := ticksOf(s.Pid); err == nil && ticks == s.Ticks {
			t.Errorf("process %d is left", s.Pid)
		}
	}
	if _, err := Connect(deadline(t), c.Socket()); !errors.Is(err, ErrGone) || len(Sockets(dir)) > 0 {
		t.Errorf("the dead shepherd's socket: %v, %v", err, Sockets(dir))
	}
}

// awaitStopped waits until the process has stopped itself.
func awaitStopped(t *testing.T, pid int) {
	t.Helper()
	ctx := deadline(t)
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(stat), ") T ") {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("process %d did not stop", pid)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestStatusOfAnotherParentsJobIsLost(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := claim(dir, "1")
	if err != nil {
		t.Fatal(err)
	}
	err = writeLine(fd, Started{Pid: 1, Ticks: 1}) // a number in use, but by another process
	unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
	wait, err := Adopt(dir, "1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wait(); !errors.Is(err, ErrLost) {
		t.Error(err)
	}
}

func TestRestartedDaemonLosesNothing(t *testing.T) {
	dir, work := t.TempDir(), t.TempDir()
	fifo := filepath.Join(work, "go")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	old, err := Spawn(deadline(t), program, dir)
	if err != nil {
		t.Fatal(err)
	}
	start(t, old, shell("1.running", "read x < "+fifo+"; exit 6"))
	start(t, old, shell("1.ended", "exit 5"))
	<-old.Events()
	// The last thing the daemon does before it dies is to ask for a start.
	last := shell("1.last", "exec sleep 300")
	old.out.send(frameRequest, request{ID: 99, Op: "start", Start: &last})
	old.Close()

	sockets := Sockets(dir)
	if len(sockets) != 1 {
		t.Fatal(sockets)
	}
	next, err := Connect(deadline(t), sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	jobs, err := next.List(deadline(t))
	if err != nil || len(jobs) != 3 {
		t.Fatalf("%+v, %v", jobs, err)
	}
	if e := exit(t, next); e.Key != "1.ended" || syscall.WaitStatus(e.WaitStatus).ExitStatus() != 5 {
		t.Errorf("%+v", e)
	}
	release(t, fifo)
	if e := exit(t, next); e.Key != "1.running" || syscall.WaitStatus(e.WaitStatus).ExitStatus() != 6 {
		t.Errorf("%+v", e)
	}
	for ctx := deadline(t); next.Signal(ctx, "1.last", syscall.SIGKILL) != nil; { // until it is started
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
	}
	if e := exit(t, next); e.Key != "1.last" {
		t.Errorf("%+v", e)
	}
	// With its daemon and its last job gone, the shepherd ends by itself, and takes its socket with it.
	select {
	case _, ok := <-next.Events():
		if ok {
			t.Error("an exit out of nowhere")
		}
	case <-deadline(t).Done():
		t.Fatal("the shepherd does not end")
	}
	if left := Sockets(dir); len(left) > 0 {
		t.Error(left)
	}
}

func TestShepherdIgnoresSignalsOfItsSession(t *testing.T) {
	c := spawnIn(t, t.TempDir())
	for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT} {
		if err := unix.Kill(c.Pid(), sig); err != nil {
			t.Fatal(err)
		}
	}
	if ws := run(t, c, shell("1", "exit 9")); ws.ExitStatus() != 9 {
		t.Error(ws)
	}
}

func TestCanceledStart(t *testing.T) {
	dir := t.TempDir()
	c := spawnIn(t, dir)
	for i := range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*100*time.Microsecond)
		key := fmt.Sprint("k", i)
		_, err := c.Start(ctx, shell(key, "exit"))
		cancel()
		var failed *StartError
		switch {
		case err == nil:
			exit(t, c)
		case errors.As(err, &failed) && failed.Code == Canceled:
			if _, err := os.Stat(runFile(dir, key)); err == nil {
				t.Errorf("%s: canceled, but its run file is there", key)
			}
		default:
			t.Error(err)
		}
	}
	if jobs, err := c.List(deadline(t)); err != nil || len(jobs) > 0 {
		t.Errorf("%v, %v", jobs, err)
	}
}

func TestProcessesLeftBehindAreReaped(t *testing.T) {
	work := t.TempDir()
	c := spawnIn(t, t.TempDir())
	st := shell("1", `(sh -c 'echo $$; exec sleep 0.2' &)`)
	st.Stdout.Path = filepath.Join(work, "log")
	run(t, c, st)
	for ctx := deadline(t); ; {
		pid := strings.TrimSpace(text(t, st.Stdout.Path)) // written when the job may have ended already
		if _, err := os.Stat("/proc/" + pid); pid != "" && err != nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("a process of a job is left as a zombie")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestBurst(t *testing.T) {
	const jobs = 200
	dir := t.TempDir()
	c := spawnIn(t, dir)
	began := time.Now()
	errs := make(chan error, jobs)
	for i := range jobs {
		go func() {
			_, err := c.Start(deadline(t), Start{Key: fmt.Sprintf("9.%d", i), Argv: []string{"/bin/sh", "-c", fmt.Sprintf("exit %d", i%100)}})
			errs <- err
		}()
	}
	seen := map[string]bool{}
	for range jobs {
		e := exit(t, c)
		var i int
		fmt.Sscanf(e.Key, "9.%d", &i)
		if seen[e.Key] || syscall.WaitStatus(e.WaitStatus).ExitStatus() != i%100 {
			t.Errorf("%+v", e)
		}
		seen[e.Key] = true
	}
	for range jobs {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	took := time.Since(began)
	t.Logf("%d jobs in %v: %v per job", jobs, took, took/jobs)
}

// status reads a figure in KiB of the shepherd.
func status(t testing.TB, c *Client, field string) (kib int) {
	t.Helper()
	for line := range strings.Lines(text(t, fmt.Sprintf("/proc/%d/status", c.Pid()))) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			fmt.Sscan(rest, &kib)
		}
	}
	return kib
}

func cpuOf(t testing.TB, c *Client) time.Duration {
	t.Helper()
	f := strings.Fields(text(t, fmt.Sprintf("/proc/%d/stat", c.Pid())))
	var user, system int
	fmt.Sscan(f[13], &user)
	fmt.Sscan(f[14], &system)
	return time.Duration(user+system) * 10 * time.Millisecond
}

func BenchmarkSpawn(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		c, err := Spawn(deadline(b), program, dir)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(status(b, c, "VmRSS")), "KiB-RSS")
		c.Close()
	}
}

// BenchmarkStartReap is the whole way of a job through the shepherd: start, event, acknowledgement; two at a time. The attempt's
// directory is there, as the daemon makes it. "disk" and "memory" are where.
func BenchmarkStartReap(b *testing.B) {
	b.Run("disk", func(b *testing.B) { startReap(b, b.TempDir()) })
	b.Run("memory", func(b *testing.B) {
		dir, err := os.MkdirTemp("/dev/shm", "shepherd")
		if err != nil {
			b.Skip(err)
		}
		b.Cleanup(func() { os.RemoveAll(dir) })
		startReap(b, dir)
	})
}

func startReap(b *testing.B, dir string) {
	c := spawnIn(b, dir)
	for i := range b.N {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprint(i)), 0o700); err != nil {
			b.Fatal(err)
		}
	}
	slots := make(chan struct{}, 2)
	before := cpuOf(b, c)
	go func() {
		for e := range c.Events() {
			c.Ack(context.Background(), e.Key)
			<-slots
		}
	}()
	b.ResetTimer()
	for i := range b.N {
		slots <- struct{}{}
		if _, err := c.Start(context.Background(), Start{Key: fmt.Sprint(i), Argv: []string{"/bin/true"}}); err != nil {
			b.Fatal(err)
		}
	}
	slots <- struct{}{}
	slots <- struct{}{}
	b.ReportMetric(float64((cpuOf(b, c)-before).Microseconds())/float64(b.N), "shepherd-cpu-µs/op")
	b.ReportMetric(float64(status(b, c, "VmRSS")), "KiB-RSS")
}
