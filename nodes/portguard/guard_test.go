package portguard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel's part is tried in a network namespace of its own, so that nothing of this machine is touched: the test binary
// starts itself again in one.
const (
	inside = "FAIRSLICE_TEST_PORTGUARD" // set in there; "dies" makes it a noded that is killed
	outer  = "10.77.0.1"                // an address of that machine beside 127.0.0.1
)

func TestMain(m *testing.M) {
	switch os.Getenv(inside) {
	case "dies":
		dies()
	case "":
		if os.Geteuid() != 0 {
			os.Exit(m.Run())
		}
		cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
		cmd.Env = append(os.Environ(), inside+"=yes")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		err := cmd.Run()
		var ended *exec.ExitError
		switch {
		case errors.As(err, &ended):
			os.Exit(ended.ExitCode())
		case errors.Is(err, syscall.EPERM): // root, but not allowed to
			os.Exit(m.Run())
		case err != nil:
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := up(); err != nil {
		fmt.Fprintln(os.Stderr, "the network of the test: ", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// up gives the new machine its addresses.
func up() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return err
	}
	second, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := second.SetInet4Addr(net.ParseIP(outer).To4()); err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, unix.SIOCSIFADDR, second)
}

const ann, bob, cid = 31001, 31002, 31003

func open(t *testing.T) (*Guard, *bytes.Buffer) {
	t.Helper()
	if os.Getenv(inside) == "" {
		t.Skip("needs root, and network namespaces: nftables is root's")
	}
	log := new(bytes.Buffer)
	g, err := Open(t.Name(), slog.New(slog.NewTextHandler(log, nil)))
	for _, cannot := range []error{syscall.EPERM, syscall.EOPNOTSUPP, syscall.EPROTONOSUPPORT} {
		if errors.Is(err, cannot) {
			t.Skip("this kernel's nftables are not to be used here: ", err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Look(nil, time.Now()); err != nil {
			t.Error(err)
		}
		if g.claims = nil; g.update() != nil || isThere(t, g) {
			t.Error("the table is left")
		}
	})
	return g, log
}

func isThere(t *testing.T, g *Guard) bool {
	t.Helper()
	is, err := there(g.table)
	if err != nil {
		t.Error(err)
	}
	return is
}

func look(t *testing.T, g *Guard, users ...int) {
	t.Helper()
	if err := g.Look(users, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// as does something while the thread is a user's.
func as(uid int, do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	become := func(uid int) {
		const same = ^uintptr(0)
		if _, _, no := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); no != 0 {
			panic(no)
		}
	}
	become(uid)
	defer become(0)
	do()
}

// listen makes a user's program that says "hello" to whoever connects. It ends with the test.
func listen(t *testing.T, uid int, network, at string) (port string, close func()) {
	t.Helper()
	var l net.Listener
	var err error
	as(uid, func() { l, err = net.Listen(network, at) })
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer func() { done <- struct{}{} }()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello")
			_ = c.Close()
		}
	}()
	over := false
	close = func() {
		if !over {
			over = true
			_ = l.Close()
			<-done
		}
	}
	t.Cleanup(close)
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, close
}

// connect says what a user finds at an address: "hello", "refused" or an error.
func connect(uid int, at string) string {
	return connectBy(&net.Dialer{Timeout: 5 * time.Second}, uid, at)
}

func connectBy(d *net.Dialer, uid int, at string) string {
	var c net.Conn
	var err error
	as(uid, func() { c, err = d.Dial("tcp", at) })
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case err != nil:
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	b, err := io.ReadAll(c)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// expect tries a port at some hosts as all users, and wants those named, and root, to reach it.
func expect(t *testing.T, what, port string, hosts []string, may ...int) {
	t.Helper()
	for _, host := range hosts {
		for _, uid := range []int{0, ann, bob, cid} {
			want := "refused"
			for _, m := range append(may, 0) {
				if uid == m {
					want = "hello"
				}
			}
			if got := connect(uid, net.JoinHostPort(host, port)); got != want {
				t.Errorf("%s: user %d at %s: %s, want %s", what, uid, host, got, want)
			}
		}
	}
}

func TestWhoMayConnect(t *testing.T) {
	g, _ := open(t)
	v4, v6 := []string{"127.0.0.1", "127.9.9.9", outer}, []string{"::1"}
	for _, row := range []struct {
		network, at string
		hosts       []string
	}{
		{"tcp4", "127.0.0.1", v4[:1]},
		{"tcp4", "127.9.9.9", v4[1:2]},
		{"tcp4", outer, v4[2:]},
		{"tcp4", "0.0.0.0", v4},
		{"tcp6", "::1", v6},
		{"tcp6", "::", v6}, // IPv6 only
		{"tcp", "", append(v6, v4...)},
	} {
		what := row.network + " " + row.at
		port, gone := listen(t, ann, row.network, net.JoinHostPort(row.at, "0"))
		look(t, g, bob, cid)
		expect(t, what+", of a user without jobs", port, row.hosts, ann, bob, cid)
		look(t, g, ann, bob)
		expect(t, what, port, row.hosts, ann)
		if got := connect(bob, net.JoinHostPort(row.hosts[0], port)); got != "refused" {
			t.Errorf("%s: at the second try: %s", what, got)
		}
		look(t, g, bob)
		expect(t, what+", when the user's jobs have ended", port, row.hosts, ann, bob, cid)
		look(t, g, ann)
		gone()
		look(t, g, ann)
		if isThere(t, g) {
			t.Errorf("%s: nobody listens, and the table is there", what)
		}
	}
	// A table that refuses all would have passed much of the above.
	port, _ := listen(t, ann, "tcp", "127.0.0.1:0")
	free, _ := listen(t, cid, "tcp", "127.0.0.1:0")
	look(t, g, ann)
	expect(t, "guarded", port, v4[:1], ann)
	expect(t, "another port", free, v4[:1], ann, bob, cid)
}

// Services of the machine are for everybody, also where their user has jobs.
func TestSystemUsersAreNotGuarded(t *testing.T) {
	g, _ := open(t)
	for _, uid := range []int{0, 33, 999} {
		port, _ := listen(t, uid, "tcp", "127.0.0.1:0")
		look(t, g, uid, ann)
		expect(t, fmt.Sprint("port of ", uid), port, []string{"127.0.0.1"}, ann, bob, cid)
		if ports, err := g.Claim(uid, 2, time.Now().Add(time.Hour)); len(ports) != 0 || err != nil {
			t.Errorf("user %d claims %v, %v", uid, ports, err)
		}
	}
	if isThere(t, g) {
		t.Error("there is a table with nothing to guard")
	}
}

// Who listens at another's port, at an address or in a family of his own, has no way to the other's.
func TestTheSamePortAtOtherAddresses(t *testing.T) {
	g, _ := open(t)
	port, _ := listen(t, ann, "tcp4", "127.0.0.1:0")
	listen(t, bob, "tcp4", "127.0.0.5:"+port)
	listen(t, cid, "tcp6", "[::]:"+port)
	look(t, g, ann, bob, cid)
	expect(t, "the first", port, []string{"127.0.0.1"}, ann)
	expect(t, "the second", port, []string{"127.0.0.5"}, bob)
	expect(t, "the third", port, []string{"::1"}, cid)
	all, _ := listen(t, ann, "tcp4", "0.0.0.0:0")
	listen(t, bob, "tcp6", "[::]:"+all)
	look(t, g, ann, bob)
	expect(t, "all of IPv4", all, []string{"127.0.0.1", outer}, ann)
	expect(t, "all of IPv6", all, []string{"::1"}, bob)
}

// A port is guarded before its program listens, and stays so when the claim is over.
func TestClaims(t *testing.T) {
	g, _ := open(t)
	look(t, g, ann, bob)
	now := time.Now()
	mine, err := g.Claim(ann, 3, now.Add(time.Hour))
	if err != nil || len(mine) != 3 {
		t.Fatal(mine, err)
	}
	others, err := g.Claim(bob, 3, now.Add(time.Hour))
	if err != nil || len(others) != 3 {
		t.Fatal(others, err)
	}
	seen := map[int]bool{}
	for _, p := range append(others, mine...) {
		if seen[p] {
			t.Errorf("port %d was chosen twice", p)
		}
		seen[p] = true
	}
	here := []string{"127.0.0.1"}
	port, _ := listen(t, ann, "tcp4", fmt.Sprint("127.0.0.1:", mine[0]))
	expect(t, "before any look", port, here, ann)
	six, _ := listen(t, ann, "tcp6", fmt.Sprint("[::]:", mine[1]))
	expect(t, "IPv6 before any look", six, []string{"::1"}, ann)
	// Another was faster than whom the port was kept for: it is not kept from him.
	theirs, _ := listen(t, bob, "tcp4", fmt.Sprint("127.0.0.1:", mine[2]))
	look(t, g, ann)
	expect(t, "a claim whose port another has", theirs, here, ann, bob, cid)
	look(t, g, ann, bob)
	expect(t, "the same when he has jobs", theirs, here, bob)
	if err := g.Release(mine); err != nil {
		t.Fatal(err)
	}
	expect(t, "after the claim", port, here, ann)
	if many, err := g.Claim(ann, maxClaims+1, now.Add(time.Hour)); len(many) > 0 || err != nil {
		t.Errorf("one user claims %d ports at once, %v", len(many), err)
	}
	// One that nobody uses keeps the port for an hour, from whoever comes by chance.
	free, _ := listen(t, cid, "tcp4", fmt.Sprint("127.0.0.1:", others[0]))
	expect(t, "a claim that nobody uses", free, here, bob)
	if err := g.Look([]int{ann, bob}, now.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	expect(t, "a claim that has lapsed", free, here, ann, bob, cid)
}

// An open connection is nobody's business any more.
func TestConnectionsStay(t *testing.T) {
	g, _ := open(t)
	var l net.Listener
	var err error
	as(ann, func() { l, err = net.Listen("tcp", "127.0.0.1:0") })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	look(t, g, ann)
	for i := range 3 {
		if _, err := io.WriteString(c, "x"); err != nil {
			t.Fatal(err)
		}
		_ = peer.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.ReadFull(peer, make([]byte, 1)); err != nil {
			t.Fatal(i, err)
		}
		listen(t, ann, "tcp", "127.0.0.1:0")
		look(t, g, ann) // another table
	}
}

// Multipath TCP has sockets of the kernel's own below the program's.
func TestMultipath(t *testing.T) {
	g, _ := open(t)
	var l net.Listener
	var err error
	config := net.ListenConfig{}
	config.SetMultipathTCP(true)
	as(ann, func() { l, err = config.Listen(context.Background(), "tcp", "127.0.0.1:0") })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello")
			_ = c.Close()
		}
	}()
	look(t, g, ann)
	for _, multipath := range []bool{true, false} {
		d := &net.Dialer{Timeout: 5 * time.Second}
		d.SetMultipathTCP(multipath)
		for uid, want := range map[int]string{0: "hello", ann: "hello", bob: "refused"} {
			if got := connectBy(d, uid, l.Addr().String()); got != want {
				t.Errorf("multipath %v, user %d: %s, want %s", multipath, uid, got, want)
			}
		}
	}
}

// Two nodes of one machine do not disturb each other.
func TestTwoGuards(t *testing.T) {
	g, _ := open(t)
	other, err := Open("another", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Look(nil, time.Now()) }()
	here := []string{"127.0.0.1"}
	port, _ := listen(t, ann, "tcp", "127.0.0.1:0")
	second, _ := listen(t, bob, "tcp", "127.0.0.1:0")
	look(t, g, ann)
	look(t, other, ann, bob)
	expect(t, "guarded by both", port, here, ann)
	expect(t, "guarded by one", second, here, bob)
	look(t, g)
	expect(t, "still guarded by one", port, here, ann)
}

// Someone who clears all tables of the machine does not open the ports for longer than until the next look.
func TestATableThatOthersRemove(t *testing.T) {
	g, log := open(t)
	port, _ := listen(t, ann, "tcp", "127.0.0.1:0")
	look(t, g, ann)
	if err := replace(g.table, nil); err != nil {
		t.Fatal(err)
	}
	expect(t, "without the table", port, []string{"127.0.0.1"}, ann, bob, cid)
	look(t, g, ann)
	expect(t, "after the next look", port, []string{"127.0.0.1"}, ann)
	if !strings.Contains(log.String(), "removed by others") {
		t.Errorf("the log says %q", log)
	}
}

// dies is a noded that is killed while it guards the port of its first argument.
func dies() {
	g, err := Open("killed", slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err == nil {
		err = g.Look([]int{ann}, time.Now())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

func TestKilled(t *testing.T) {
	open(t)
	here := []string{"127.0.0.1"}
	port, gone := listen(t, ann, "tcp", "127.0.0.1:0")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), inside+"=dies")
	out, err := cmd.CombinedOutput()
	if state, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !state.Signaled() {
		t.Fatalf("%v: %s", err, out)
	}
	expect(t, "guarded by one that was killed", port, here, ann)
	gone()
	taken, _ := listen(t, bob, "tcp", "127.0.0.1:"+port)
	expect(t, "what it has left", taken, here, ann)
	g, err := Open("killed", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	look(t, g, bob)
	expect(t, "after the next one's first look", taken, here, bob)
	look(t, g)
	if isThere(t, g) {
		t.Error("the table is left")
	}
}

// Follow guards what it finds, and at its end what is left then.
func TestFollow(t *testing.T) {
	g, log := open(t)
	port, _ := listen(t, ann, "tcp", "127.0.0.1:0")
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	g.Follow(ctx, func() []int {
		switch looks++; looks {
		case 1:
			g.made <- struct{}{} // the second look need not wait
			return []int{ann}
		case 2:
			expect(t, "after the first look", port, []string{"127.0.0.1"}, ann)
			if _, err := g.Claim(ann, 1, time.Now().Add(time.Hour)); err != nil {
				t.Error(err)
			}
			return nil
		case 3:
			expect(t, "after the second look", port, []string{"127.0.0.1"}, ann, bob, cid)
			cancel()
		}
		return nil
	})
	if looks != 4 || log.Len() > 0 {
		t.Errorf("%d looks; the log says %q", looks, log)
	}
}

// One user with more ports than anybody has does not make the table fail, nor keep others from being guarded.
func TestManyPorts(t *testing.T) {
	g, _ := open(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Max < 2*maxPorts {
		t.Skip("may not open enough sockets here")
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	port, _ := listen(t, bob, "tcp", "127.0.0.1:0")
	var many []int // plain sockets: each costs less than a listener of package net
	as(ann, func() {
		for len(many) < maxPorts+100 {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
			if err != nil {
				t.Fatal(err)
			}
			many = append(many, fd)
			if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 2}}), unix.Listen(fd, 1)); err != nil {
				t.Fatal(err)
			}
		}
	})
	defer func() {
		for _, fd := range many {
			unix.Close(fd)
		}
	}()
	began := time.Now()
	look(t, g, ann, bob)
	first := time.Since(began)
	began = time.Now()
	look(t, g, ann, bob)
	t.Logf("%d ports: first look %s, next look %s", len(g.held), first, time.Since(began))
	if len(g.held) != maxPorts+1 {
		t.Errorf("%d ports are guarded", len(g.held))
	}
	expect(t, "beside them", port, []string{"127.0.0.1"}, bob)
}

func TestListeners(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here")
	}
	defer l.Close()
	found, err := listeners()
	if err != nil {
		t.Fatal(err)
	}
	want := netip.MustParseAddrPort(l.Addr().String())
	for _, one := range found {
		if one.at == want && one.uid == uint32(os.Geteuid()) {
			return
		}
	}
	t.Errorf("%v is not among %v", want, found)
}

// benched is a guard of 100 ports of ann's.
func benched(b *testing.B) (*Guard, []net.Listener) {
	if os.Getenv(inside) == "" {
		b.Skip("needs root, and network namespaces")
	}
	g, err := Open(b.Name(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = g.Look(nil, time.Now()) })
	var all []net.Listener
	as(ann, func() {
		for range 100 {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = l.Close() })
			all = append(all, l)
		}
	})
	return g, all
}

// BenchmarkConnect is what a connection through lo costs: without the table, and of who may and who may not with it.
func BenchmarkConnect(b *testing.B) {
	g, all := benched(b)
	for _, row := range []struct {
		name  string
		users []int
		uid   int
	}{{"open", nil, ann}, {"guarded", []int{ann}, ann}, {"refused", []int{ann}, bob}} {
		b.Run(row.name, func(b *testing.B) {
			if err := g.Look(row.users, time.Now()); err != nil {
				b.Fatal(err)
			}
			as(row.uid, func() {
				for b.Loop() {
					c, err := net.Dial("tcp", all[0].Addr().String())
					if (err == nil) != (row.uid == ann) {
						b.Fatal(err)
					}
					if err != nil {
						continue
					}
					peer, err := all[0].Accept()
					if err != nil {
						b.Fatal(err)
					}
					_, _ = c.Close(), peer.Close()
				}
			})
		})
	}
}

// BenchmarkSend is what a packet costs on a connection that is there.
func BenchmarkSend(b *testing.B) {
	g, all := benched(b)
	c, err := net.Dial("tcp", all[0].Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	peer, err := all[0].Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer peer.Close()
	for name, users := range map[string][]int{"open": nil, "guarded": {ann}} {
		b.Run(name, func(b *testing.B) {
			if err := g.Look(users, time.Now()); err != nil {
				b.Fatal(err)
			}
			word := make([]byte, 1)
			for b.Loop() { // there and back
				for _, way := range [][2]net.Conn{{c, peer}, {peer, c}} {
					if _, err := way[0].Write(word); err != nil {
						b.Fatal(err)
					}
					if _, err := io.ReadFull(way[1], word); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkLook(b *testing.B) {
	g, _ := benched(b)
	b.Run("nothing new", func(b *testing.B) {
		for b.Loop() {
			if err := g.Look([]int{ann, bob}, time.Now()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("another port each time", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			g.held = ports{}
			if err := g.Look([]int{ann, bob}, time.Now()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
