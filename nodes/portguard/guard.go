package portguard

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lookEvery is how long a program that nobody has announced may listen before its port is guarded.
	lookEvery = time.Second
	// claimedEvery is the same while there are claims: their program may listen elsewhere than it should.
	claimedEvery = 50 * time.Millisecond
	// maxClaims is how many ports are kept for one user at once.
	maxClaims = 64
)

// Guard guards ports of this machine. Its methods may be called by several goroutines at once.
type Guard struct {
	table string
	log   *slog.Logger
	made  chan struct{} // tells Follow of a claim

	mu     sync.Mutex // guards what follows, and the order of changes in the kernel
	users  []int      // as of the last look
	claims map[uint16]claim
	held   ports // what the kernel has, if known
	known  bool
}

// Open finds out whether this process may guard ports here: it must be root's, and the kernel must have nftables. It changes
// nothing yet. of is what tells this guard from others of the same machine, and is the same after a restart.
func Open(of string, log *slog.Logger) (*Guard, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("only root may")
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(of)) // never fails
	g := &Guard{table: fmt.Sprintf("fairslice-%08x", h.Sum32()), log: log, made: make(chan struct{}, 1), claims: map[uint16]claim{}}
	if err := possible(g.table); err != nil {
		return nil, err
	}
	if _, err := listeners(); err != nil {
		return nil, err
	}
	return g, nil
}

// Look guards the ports at which programs of these users listen, and no others but claims. The first look also undoes what a
// guard of the same name has left. After an error the kernel guards what it did before, and the next look tries again.
func (g *Guard) Look(users []int, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users = users
	maps.DeleteFunc(g.claims, func(_ uint16, c claim) bool { return now.After(c.until) })
	return g.update()
}

// Claim chooses n free ports and guards them for a user, until they are released or it is past until. None are chosen for
// users whose ports are never guarded, nor for one who has many claims already. Nothing holds others off listening there first; if one does, the claim ends.
func (g *Guard) Claim(uid, n int, until time.Time) ([]int, error) {
	if !guardable(uid) {
		return nil, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	has := 0
	for _, c := range g.claims {
		if c.uid == uint32(uid) {
			has++
		}
	}
	if has+n > maxClaims {
		return nil, nil
	}
	var out []int
	for try := 0; len(out) < n && try < 4*n; try++ {
		port, fd, err := freePort()
		if err != nil {
			g.drop(out)
			return nil, fmt.Errorf("choose a port: %w", err)
		}
		defer unix.Close(fd) // when it is guarded; and until then it is not chosen again
		if _, taken := g.claims[uint16(port)]; !taken {
			g.claims[uint16(port)] = claim{uint32(uid), until}
			out = append(out, port)
		}
	}
	if err := g.update(); err != nil {
		g.drop(out)
		return nil, err
	}
	select {
	case g.made <- struct{}{}:
	default: // it will look anyway
	}
	return out, nil
}

// Release ends claims. Where their user listens by now, the ports stay guarded.
func (g *Guard) Release(ports []int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(ports)
	return g.update()
}

func (g *Guard) drop(ports []int) {
	for _, p := range ports {
		delete(g.claims, uint16(p))
	}
}

// Follow looks again and again until ctx ends, and then once more. users is asked before each look.
func (g *Guard) Follow(ctx context.Context, users func() []int) {
	failing := false
	for {
		over := ctx.Err() != nil
		err := g.Look(users(), time.Now())
		switch {
		case err != nil && !failing:
			g.log.Error("ports not guarded", "error", err)
		case err == nil && failing:
			g.log.Info("ports guarded again")
		}
		failing = err != nil
		if over {
			return
		}
		select {
		case <-ctx.Done():
		case <-g.made:
		case <-time.After(g.pause()):
		}
	}
}

func (g *Guard) pause() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.claims) > 0 {
		return claimedEvery
	}
	return lookEvery
}

// update brings the kernel's table to what is to be guarded now. The lock is held.
func (g *Guard) update() error {
	want := ports{}
	if len(g.users) > 0 || len(g.claims) > 0 {
		found, err := listeners()
		if err != nil {
			return err
		}
		want = guarded(found, g.users, g.claims)
	}
	if g.known && maps.Equal(want, g.held) {
		if len(want) == 0 {
			return nil
		}
		is, err := there(g.table)
		if err != nil || is {
			return err
		}
		g.log.Warn("table of guarded ports had been removed by others", "table", g.table)
	}
	g.known = false
	if err := replace(g.table, want); err != nil {
		return err
	}
	g.held, g.known = want, true
	return nil
}

// freePort binds a socket to a port that nobody has, at any address. It is the caller's to close.
func freePort() (port, fd int, err error) {
	fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0), unix.Bind(fd, &unix.SockaddrInet6{}))
		if err != nil {
			unix.Close(fd)
		}
	}
	if err != nil { // a kernel without IPv6
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return 0, 0, os.NewSyscallError("socket", err)
		}
		if err := unix.Bind(fd, &unix.SockaddrInet4{}); err != nil {
			unix.Close(fd)
			return 0, 0, os.NewSyscallError("bind", err)
		}
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		unix.Close(fd)
		return 0, 0, os.NewSyscallError("getsockname", err)
	}
	switch a := name.(type) {
	case *unix.SockaddrInet6:
		return a.Port, fd, nil
	case *unix.SockaddrInet4:
		return a.Port, fd, nil
	}
	panic("internal error: impossible: a socket of another family")
}
