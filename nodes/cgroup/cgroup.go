package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Mode says by what means groups are kept.
type Mode int

// The modes; see the package comment.
const (
	None Mode = iota
	V1
	V2
)

func (m Mode) String() string { return [...]string{"none", "v1", "v2"}[m] }

// Limits of one group. In mode None nothing holds them: the caller watches Usage.
type Limits struct {
	Memory int64   // bytes of memory and swap together; 0 means unlimited
	CPUs   float64 // slots: the weight under contention; 0 means the kernel's default
	Quota  bool    // CPUs is also an upper bound

	// Deny lists devices that no process of the group may open or make a node of, also not as root; all else about
	// devices stays as the parent has it. What a running process has open already stays open. A device denied once stays denied for as
	// long as the group exists: Create only adds. Where CannotDeny says why not, Create with such a list fails.
	Deny []Device
}

// Usage of a group since it was created.
type Usage struct {
	CPU       time.Duration
	Memory    int64 // bytes, without file pages that can be dropped at once
	MemoryMax int64 // highest bytes so far; in V1 and V2 the kernel's own figure, which includes file pages
	OOMKills  int   // processes the kernel killed because the group was at its limit; always 0 in mode None
	Processes int
}

// Manager makes the groups below one parent. Its methods may be called at once from many goroutines.
type Manager struct {
	mode   Mode
	reason string
	parent string // "fairslice/node1"
	roots  dirs   // the parent's directories in V1 and V2
	table  *table // the view of /proc in mode None

	cannotDeny string
	deny       func(dir string, devices []Device) error // in V2; see DenyWith

	placeOnce sync.Once
	place     place // where /proc shows the parent's groups, in V1 and V2
	placeErr  error
}

// Group is one group of a Manager. Its methods may be called at once from many goroutines.
type Group struct {
	name string
	mode Mode
	kind
}

// kind is what differs between the modes.
type kind interface {
	pids() ([]int, error)
	freeze(on bool) error
	usage() (Usage, error)
	total() (Usage, error)
	remove() error
	ref() string
}

var validName = regexp.MustCompile(`^[0-9A-Za-z_-][0-9A-Za-z._-]*$`)

// New finds the mode of this machine and makes the parent, a slash-separated relative path such as
// "fairslice/node1". Where no hierarchy can be used it returns a Manager in mode None, and Reason says why.
// The error is for a bad parent name only.
func New(parent string) (*Manager, error) {
	for part := range strings.SplitSeq(parent, "/") {
		if !validName.MatchString(part) {
			return nil, fmt.Errorf("cgroup parent %q: not a relative path of plain names", parent)
		}
	}
	m := &Manager{parent: parent, table: &table{}}
	found, err := detect()
	if err == nil && found.mode == V1 {
		m.roots, err = prepareV1(found.v1, parent)
	} else if err == nil {
		m.roots, err = prepareV2(found.v2, parent)
	}
	if err != nil {
		m.reason = err.Error()
		m.cannotDeny = "no cgroups (" + m.reason + ")"
		return m, nil
	}
	m.mode = found.mode
	switch m.mode {
	case V1:
		m.roots.devices, m.cannotDeny = prepareDevicesV1(found.v1.devices, parent)
	case V2:
		m.cannotDeny = "no means was given" // until DenyWith
	}
	return m, nil
}

// Mode returns how the groups are kept.
func (m *Manager) Mode() Mode { return m.mode }

// Reason says, in mode None, why no hierarchy is used; else it is empty.
func (m *Manager) Reason() string { return m.reason }

// Create makes the group, or takes the one that exists, and gives it these limits.
func (m *Manager) Create(name string, l Limits) (*Group, error) {
	if !validName.MatchString(name) {
		return nil, fmt.Errorf("create group %q: not a plain name", name)
	}
	var err error
	switch m.mode {
	case V1:
		err = createV1(m.roots.child(name), l)
	case V2:
		err = createV2(m.roots.child(name).unified, l)
	}
	if err == nil {
		err = m.denyDevices(name, l.Deny)
	}
	if err != nil {
		return nil, fmt.Errorf("create group %s: %w", name, err)
	}
	g := m.group(name)
	if own, ok := g.kind.(*marked); ok {
		m.table.keep(own)
	}
	return g, nil
}

// Open returns a group that exists, as after a restart. In mode None a group exists while it has a process.
func (m *Manager) Open(name string) (*Group, bool) {
	if !validName.MatchString(name) {
		return nil, false
	}
	g := m.group(name)
	if own, ok := g.kind.(*marked); ok {
		pids, err := g.pids()
		if err != nil || len(pids) == 0 {
			m.table.drop(own) // nobody removes what does not exist
			return g, false
		}
		m.table.keep(own)
		return g, true
	}
	return g, exists(m.roots.child(name).main())
}

// List names the groups that exist, of this parent only, for sweeping what an earlier life left.
func (m *Manager) List() ([]string, error) {
	if m.mode == None {
		return m.table.groups(m.parent)
	}
	seen := map[string]bool{}
	var names []string
	for _, dir := range m.roots.all() {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("list groups: %w", err)
		}
		for _, e := range entries {
			if e.IsDir() && !seen[e.Name()] {
				seen[e.Name()] = true
				names = append(names, e.Name())
			}
		}
	}
	return names, nil
}

// Remove deletes the parent and the groups in it, none of which may have a process: for an installation that goes, and for tests.
func (m *Manager) Remove() error {
	switch m.mode {
	case V1:
		return v1{m.roots}.remove()
	case V2:
		return v2{m.roots.unified}.remove()
	}
	return nil
}

func (m *Manager) group(name string) *Group {
	g := &Group{name: name, mode: m.mode}
	switch m.mode {
	case V1:
		g.kind = v1{m.roots.child(name)}
	case V2:
		g.kind = v2{m.roots.child(name).unified}
	default:
		g.kind = m.table.group(m.parent + "/" + name)
	}
	return g
}

// Name returns the name the group was made with.
func (g *Group) Name() string { return g.name }

// Pids returns every process of the group, those of groups nested in it included. Order is not defined.
func (g *Group) Pids() ([]int, error) { return g.pids() }

// Signal sends sig to every process of the group as of now. A frozen process sees it when thawed.
func (g *Group) Signal(sig syscall.Signal) error {
	pids, err := g.pids()
	if err != nil {
		return fmt.Errorf("signal group %s: %w", g.name, err)
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, sig); err != nil && err != unix.ESRCH {
			return fmt.Errorf("signal group %s: process %d: %w", g.name, pid, err)
		}
	}
	return nil
}

// Kill ends every process, and returns once none is left or ctx ends. It also ends a frozen group.
func (g *Group) Kill(ctx context.Context) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		pids, err := g.pids()
		if err == nil && len(pids) == 0 {
			// A frozen group with no process in it would freeze the next one born in it.
			return g.Thaw()
		}
		if err == nil {
			err = g.killOnce(pids)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kill group %s: %d processes left: %w", g.name, len(pids), errors.Join(ctx.Err(), err))
		case <-time.After(pause):
		}
	}
}

// killOnce stops the group first, so that nothing is forked between the look and the signal.
func (g *Group) killOnce(pids []int) error {
	if v, ok := g.kind.(v2); ok {
		if err := v.kill(); err == nil {
			return nil
		}
	}
	frozen := g.freeze(true) == nil
	if again, err := g.pids(); err == nil {
		pids = again
	}
	var first error
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH && first == nil {
			first = err
		}
	}
	if frozen {
		return errors.Join(first, g.freeze(false))
	}
	return first
}

// Freeze stops every process where it is, and returns when all have stopped, or an error after two seconds.
// Unlike SIGSTOP it cannot be seen or undone by them. In mode None it is SIGSTOP.
func (g *Group) Freeze() error {
	if err := g.freeze(true); err != nil {
		return fmt.Errorf("freeze group %s: %w", g.name, err)
	}
	return nil
}

// Thaw undoes Freeze.
func (g *Group) Thaw() error {
	if err := g.freeze(false); err != nil {
		return fmt.Errorf("thaw group %s: %w", g.name, err)
	}
	return nil
}

// Usage reads the counters. In mode None the CPU time and memory are those of the living processes, so a
// process that ended between two calls is missed, unless its parent waited for it.
func (g *Group) Usage() (Usage, error) {
	u, err := g.usage()
	if err != nil {
		return u, fmt.Errorf("usage of group %s: %w", g.name, err)
	}
	return u, nil
}

// Total is the part of Usage that counts when the group's processes have ended, which costs a third to read: CPU,
// MemoryMax and OOMKills.
func (g *Group) Total() (Usage, error) {
	u, err := g.total()
	if err != nil {
		return u, fmt.Errorf("usage of group %s: %w", g.name, err)
	}
	return u, nil
}

// Remove deletes the group, which must have no process. The kernel may hold it for a moment after its last
// process ended, so Remove tries for up to two seconds. A group that is not there is no error.
func (g *Group) Remove() error {
	if err := g.remove(); err != nil {
		return fmt.Errorf("remove group %s: %w", g.name, err)
	}
	return nil
}

// Env returns the variables a process of the group must have in its environment. Only mode None needs the
// second one to find the group's processes; the first names the attempt to the job itself.
func (g *Group) Env() []string {
	env := []string{"FAIRSLICE_ATTEMPT=" + g.name}
	if m, ok := g.kind.(*marked); ok {
		env = append(env, markVariable+m.mark)
	}
	return env
}

// Know tells the group of a process of its own. Only mode None needs it, for a first process that clears its environment
// before anybody has looked; that is as good as the mark then.
func (g *Group) Know(pid int) {
	if m, ok := g.kind.(*marked); ok {
		m.know(pid)
	}
}

// Ref returns the group as text for Join, which may be called in another process. It is empty in mode None.
func (g *Group) Ref() string { return g.ref() }

// Unified is the group's directory in cgroup v2, "" in the other modes.
func (g *Group) Unified() string {
	if k, ok := g.kind.(v2); ok {
		return k.dir
	}
	return ""
}
