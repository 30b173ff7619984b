package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"fairslice/nodes"
	"fairslice/nodes/cgroup"
	"fairslice/nodes/cgroup/devices"
	"fairslice/nodes/imagecache"
	"fairslice/queue"
)

// Config of a node's agent. Required: Dir, Shepherd, Inventory, Logger.
type Config struct {
	Dir       string // must survive restarts of noded; best on a tmpfs, as making files is much of what a short job costs
	Overlays  string // for what jobs change of their images, on a disk; "": in Dir
	Shepherd  string // the shepherd program
	Enter     string // the program that starts a job inside a container
	Apptainer string // path, "" finds it
	Version   string
	// Inventory reads what the node has now. It is called at each connection.
	Inventory    func() (nodes.Node, error)
	GPUs         *GPUs             // nil on a node without
	Images       *imagecache.Cache // of the catalogue
	Ports        Ports             // nil: ports of jobs are open to all users of this machine
	PortsOpen    string            // then why, where there are other users
	BindHome     bool
	BindCWD      bool
	CgroupParent string
	Interval     time.Duration // between INT, TERM and KILL; 0 means 10 s
	SwitchUser   bool          // run jobs as their owner; only root can
	BootID       string        // "" reads this machine's
	Logger       *slog.Logger
	Now          func() time.Time
}

// Agent runs attempts. It is the Handler of a node's connection.
type Agent struct {
	cfg      Config
	spool    *spool
	cgroups  *cgroup.Manager
	bootID   string
	flock    *flock    // the shepherds
	watchdog *watchdog // nil on a node without GPUs

	mu       sync.Mutex // guards what follows
	attempts map[string]*attempt
	up       queue.Upstream
	wg       sync.WaitGroup
	ctx      context.Context
	ending   chan struct{} // closed by EndJobs
}

// New prepares the directories and the cgroups, and starts a shepherd for new jobs.
func New(ctx context.Context, cfg Config) (*Agent, error) {
	if cfg.Interval == 0 {
		cfg.Interval = 10 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Overlays == "" {
		cfg.Overlays = filepath.Join(cfg.Dir, "overlays")
	}
	sp, err := openSpool(filepath.Join(cfg.Dir, "spool"))
	if err != nil {
		return nil, err
	}
	// Users must be able to reach their own job's directory, and nothing else of ours.
	for dir, mode := range map[string]os.FileMode{cfg.Dir: 0o711, filepath.Join(cfg.Dir, "jobs"): 0o711, filepath.Join(cfg.Dir, "shepherd"): 0o700,
		cfg.Overlays: 0o711} {
		if err := os.MkdirAll(dir, mode); err != nil {
			return nil, err
		}
		if err := os.Chmod(dir, mode); err != nil {
			return nil, err
		}
	}
	cg, err := cgroup.New(cfg.CgroupParent)
	if err != nil {
		return nil, err
	}
	cg.DenyWith(devices.Deny)
	if cfg.BootID == "" {
		boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return nil, fmt.Errorf("boot id: %w", err)
		}
		cfg.BootID = strings.TrimSpace(string(boot))
	}
	a := &Agent{cfg: cfg, spool: sp, cgroups: cg, bootID: cfg.BootID, attempts: map[string]*attempt{}, ctx: ctx, ending: make(chan struct{})}
	if cfg.GPUs != nil {
		if err := os.MkdirAll(filepath.Join(cfg.Dir, "fgpu"), 0o755); err != nil {
			return nil, err
		}
		a.watchdog = newWatchdog(a)
		a.wg.Go(func() { a.watchdog.run(ctx) })
	}
	a.flock, err = newFlock(ctx, cfg.Shepherd, filepath.Join(cfg.Dir, "shepherd"), cfg.Logger)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Unenforced says, for people, what cannot be enforced on this node; empty when everything is.
func (a *Agent) Unenforced() []string {
	var out []string
	if a.cgroups.Mode() == cgroup.None {
		out = append(out, "no cgroups ("+a.cgroups.Reason()+"): memory limits are watched, not held; CPU shares are not set")
	}
	if why := a.cgroups.CannotDeny(); a.cfg.GPUs != nil && a.cfg.GPUs.Deny != nil && why != "" {
		out = append(out, "devices of other GPUs are not closed to jobs: "+why)
	}
	if a.cfg.PortsOpen != "" {
		out = append(out, "other users of the machine can connect to the ports of jobs: "+a.cfg.PortsOpen)
	}
	if !a.cfg.SwitchUser {
		out = append(out, "not root: every job runs as the user who started noded")
	}
	return out
}

// Restore takes up every attempt of the spool. Call it before connecting.
func (a *Agent) Restore() {
	records, bad := a.spool.load()
	for _, err := range bad {
		a.cfg.Logger.Error("spool record set aside", "error", err)
	}
	for key, r := range records {
		at := a.add(key, r)
		at.restored = true
		at.holdImage()
		a.begin(at)
	}
	a.sweep(records)
}

// sweep removes what attempts that nobody knows any more have left behind.
func (a *Agent) sweep(known map[string]*record) {
	groups, err := a.cgroups.List()
	if err != nil {
		a.cfg.Logger.Warn("leftover groups not listed", "error", err)
	}
	for _, name := range groups {
		if known[name] != nil {
			continue
		}
		if g, ok := a.cgroups.Open(name); ok {
			a.cfg.Logger.Warn("group of an unknown attempt ended", "attempt", name)
			_ = g.Kill(a.ctx)
			_ = g.Remove()
		}
	}
	dirs, _ := os.ReadDir(filepath.Join(a.cfg.Dir, "jobs"))
	for _, d := range dirs {
		if known[d.Name()] == nil {
			_ = os.RemoveAll(filepath.Join(a.cfg.Dir, "jobs", d.Name()))
		}
	}
	regions, _ := os.ReadDir(filepath.Join(a.cfg.Dir, "fgpu"))
	for _, d := range regions {
		if known[strings.TrimSuffix(d.Name(), ".meter")] == nil {
			_ = os.RemoveAll(filepath.Join(a.cfg.Dir, "fgpu", d.Name()))
		}
	}
	a.sweepOverlays(known)
	for _, key := range a.flock.keys() {
		if own := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(key, ".pre"), ".post"), besideSuffix); known[own] == nil {
			a.flock.discard(key)
		}
	}
}

// add registers an attempt; begin starts its goroutine.
func (a *Agent) add(key string, r *record) *attempt {
	at := newAttempt(a, key, r)
	a.mu.Lock()
	a.attempts[key] = at
	a.mu.Unlock()
	return at
}

// all is every attempt as of now, find the one with this number, or nil.
func (a *Agent) all() []*attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.attempts))
}

func (a *Agent) find(id queue.ElementID, number int) *attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.attempts[id.AttemptKey(number)]
}

func (a *Agent) begin(at *attempt) { a.wg.Go(func() { at.run(a.ctx) }) }

// EndJobs kills every job, takes no new one, and returns when batchd has acknowledged the ends, or ctx
// has ended: for a cluster that ends with its terminal. Call it while the node is connected.
func (a *Agent) EndJobs(ctx context.Context) {
	a.mu.Lock()
	close(a.ending)
	all := slices.Collect(maps.Values(a.attempts))
	a.mu.Unlock()
	for _, at := range all {
		at.order(queue.Order{Op: queue.OrderKill, Verdict: queue.TermAdmin, AtOnce: true})
	}
	for ctx.Err() == nil {
		a.mu.Lock()
		left := len(a.attempts)
		a.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (a *Agent) isEnding() bool {
	select {
	case <-a.ending:
		return true
	default:
		return false
	}
}

// Stop waits for the attempts' goroutines; call it after ctx has ended. Jobs go on.
func (a *Agent) Stop() {
	a.wg.Wait()
	a.flock.close()
}

// lingerFor is how long the output of a session that has ended waits for somebody to see it.
const lingerFor = time.Minute

// forget removes an attempt whose end is durable in batchd; a session's when its output was seen, too.
func (a *Agent) forget(at *attempt) {
	if at.rec.Assignment.Spec.Interactive.Session() {
		a.wg.Go(func() {
			select {
			case <-at.drained:
			case <-time.After(lingerFor):
			case <-a.ending:
			case <-a.ctx.Done():
				return // the record stays; the next noded reports it again
			}
			a.remove(at)
		})
		return
	}
	a.wg.Go(func() { a.remove(at) }) // the connection's goroutine must not wait for files
}

func (a *Agent) remove(at *attempt) {
	if err := at.removeFiles(); err != nil && !errors.Is(err, os.ErrNotExist) {
		a.cfg.Logger.Warn("attempt left files behind", "attempt", at.key, "error", err)
	}
	a.mu.Lock()
	delete(a.attempts, at.key)
	a.mu.Unlock()
}

// RunningJob is what the metrics show of a job.
type RunningJob struct {
	ID          queue.ElementID
	User, Queue string
	Slices      []nodes.Slice
	MemoryLimit int64
	Usage       queue.Usage
}

// Running lists what runs on this node now.
func (a *Agent) Running() []RunningJob {
	var out []RunningJob
	for _, at := range a.all() {
		r := at.snapshot()
		if r.Stage != running {
			continue
		}
		u, _ := at.usageNow()
		as := r.Assignment
		out = append(out, RunningJob{ID: at.id, User: as.Owner.User, Queue: as.Queue, Slices: as.Alloc[0].Slices,
			MemoryLimit: r.MemoryLimit, Usage: u})
	}
	slices.SortFunc(out, func(x, y RunningJob) int {
		return cmp.Or(cmp.Compare(x.ID.Job, y.ID.Job), cmp.Compare(x.ID.Index, y.ID.Index))
	})
	return out
}
