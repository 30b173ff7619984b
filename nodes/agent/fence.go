package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"fairslice/nodes"
	"fairslice/nodes/apptainer"
	"fairslice/nodes/cgroup"
	"fairslice/nodes/fgpu"
	"fairslice/nodes/shepherd"
	"fairslice/queue"
)

// GPUs is what the agent knows of the node's GPUs, and how it fences slices of them. Required: Driver, Programs, List, Facts, Serve.
type GPUs struct {
	Driver   Driver
	Programs string // directory of libfgpu.so, fence-probe and fgpu-smi
	Policy   fgpu.Policy
	Frame    time.Duration // 0 means fgpu.DefaultFrame
	// List is every GPU, or MIG instance, of the node as it is now.
	List func() []nodes.GPU
	// Ours says that a process on a GPU is the node's own, such as an MPS server; nil means none is.
	Ours func(pid int) bool
	// Facts says what is known of a GPU, or of a MIG instance, by its UUID.
	Facts func(uuid string) (GPUFacts, bool)
	// Deny lists the devices that a job with these slices may not open: those of all other GPUs.
	Deny func(held []nodes.Slice) []cgroup.Device
	// Limits are the limits that the driver itself keeps for a group of cgroup v2; nil where it has none.
	Limits MemoryLimits
	// Serve is what the processes of a job with these slices need to reach the MPS server of their GPU; nothing where
	// none is in that mode. The variables are other ones in a container.
	Serve func(held []nodes.Slice, contained bool) (env []string, binds []apptainer.Bind, err error)
	// Real says that containers need the machine's own driver (--nv). A simulated one is in the directory Simulated, with its
	// simulated.conf, and keeps its state in SimulatedState, which containers see under the same path.
	Real                      bool
	Simulated, SimulatedState string
}

// MemoryLimits are what nvml.MemoryLimits does; what a GPU does not support is no error.
type MemoryLimits interface {
	Set(group, uuid string, soft, hard int64) error
	Clear(group, uuid string) error
}

// GPUFacts are what a slice's job is told of its GPU.
type GPUFacts struct {
	Memory  int64 // bytes of the whole GPU
	Model   string
	Lost    bool  // the driver no longer answers for it
	Context int64 // bytes that one context costs, as far as it is known
	MIG     int   // number of the instance, or NoInstance
}

// fence is what is set up for the slices of one attempt.
type fence struct {
	dir     string // of the region
	slices  []nodes.Slice
	shim    bool // libfgpu.so holds the slices, and the job does not start unless that is proven
	without bool // it would, but cannot, and the queue lets the job run under the watchdog alone
}

// fenceOf says how the slices of an assignment are fenced; nil for one without slices.
func (t *attempt) fenceOf(as *queue.Assignment) (*fence, error) {
	held := as.Alloc[0].Slices
	if len(held) == 0 || t.a.cfg.GPUs == nil {
		return nil, nil
	}
	f := &fence{dir: t.regionDir(), slices: held}
	served := 0
	for _, s := range held {
		if s.Mode == nodes.ModeMPS {
			served++
		}
		// Who has all of a GPU has nobody to be kept from. MIG is fenced by the hardware.
		if s.Mode == nodes.ModeMPS || s.Mode == nodes.ModeShim && s.SMShare < fgpu.Whole {
			f.shim = true
		}
	}
	if served > 1 { // no other node would do better
		return nil, &failure{code: "gpu", jobFault: true, exitCode: exitCannotRun, verdict: queue.TermOther,
			detail: "a job can have a slice of one GPU in mode mps only: ask for one slice, or for whole GPUs (-gpu num=N)"}
	}
	if !f.shim || as.ImageFile != "" || as.Image != nil {
		return f, nil
	}
	if !as.Unfenced {
		return nil, &failure{code: "fence", jobFault: true, exitCode: exitCannotRun, verdict: queue.TermOther,
			detail: "a fraction of a GPU cannot be fenced outside a container: name an image (-image), or use a queue with unfenced = \"watchdog\""}
	}
	f.shim, f.without = false, true
	return f, nil
}

func (t *attempt) regionDir() string { return filepath.Join(t.a.cfg.Dir, "fgpu", t.key) }

// openRegion makes the region of the attempt, or opens the one of an earlier life of noded, and puts it under the watchdog.
func (t *attempt) openRegion(f *fence, as *queue.Assignment) error {
	g := t.a.cfg.GPUs
	spec := fgpu.Spec{Job: as.ID.String(), Policy: g.Policy, UID: os.Geteuid(), GID: os.Getegid(), Frame: g.Frame}
	if t.a.cfg.SwitchUser {
		spec.UID, spec.GID = as.Owner.UID, as.Owner.GID
	}
	if spec.Frame == 0 {
		spec.Frame = fgpu.DefaultFrame
	}
	for _, s := range f.slices {
		facts, ok := g.Facts(s.UUID)
		switch {
		case !ok:
			return &failure{code: "gpu", detail: "GPU " + s.UUID + " is not on this node any more"}
		case facts.Lost:
			return &failure{code: "gpu", detail: "GPU " + s.UUID + " no longer answers"}
		}
		spec.Devices = append(spec.Devices, fgpu.Device{Slice: s, Model: facts.Model, Physical: facts.Memory, Context: facts.Context})
	}
	region, err := fgpu.Create(f.dir, spec)
	if err != nil {
		return &failure{code: "fence", detail: err.Error()}
	}
	t.a.watchdog.watch(t, region, spec)
	t.limitByDriver(f)
	return nil
}

// limitByDriver has the driver itself hold the slices to their memory, where it can: no program gets around that. It is one more
// layer; without it the fence is what it is elsewhere.
func (t *attempt) limitByDriver(f *fence) {
	limits, group := t.a.cfg.GPUs.Limits, t.group.Unified()
	if limits == nil || group == "" {
		return
	}
	for _, s := range f.slices {
		if s.Mode != nodes.ModeShim && s.Mode != nodes.ModeMPS {
			continue
		}
		if err := limits.Set(group, s.UUID, 0, s.Memory); err != nil {
			t.a.cfg.Logger.Warn("the driver does not limit a slice's memory", "attempt", t.key, "gpu", s.UUID, "error", err)
		}
	}
}

// liftLimits undoes limitByDriver, before the group is removed.
func (t *attempt) liftLimits() {
	if t.a.cfg.GPUs == nil || t.a.cfg.GPUs.Limits == nil || t.group == nil || t.group.Unified() == "" {
		return
	}
	for _, s := range t.rec.Assignment.Alloc[0].Slices {
		if err := t.a.cfg.GPUs.Limits.Clear(t.group.Unified(), s.UUID); err != nil {
			t.a.cfg.Logger.Warn("the driver's limit of a slice's memory is not lifted", "attempt", t.key, "gpu", s.UUID, "error", err)
		}
	}
}

// place adds to a contained run what its slices need to be seen and fenced there.
func (t *attempt) place(f *fence, as *queue.Assignment, o *apptainer.Options, s *apptainer.Start) error {
	g := t.a.cfg.GPUs
	s.GPU = true
	o.GPU = g.Real
	binds, err := fgpu.Placement{Programs: g.Programs, Region: f.dir, Driver: g.Simulated, Unfenced: !f.shim}.Binds()
	if err != nil {
		return &failure{code: "fence", detail: err.Error()}
	}
	for _, b := range binds {
		o.Binds = append(o.Binds, apptainer.Bind{Source: b.Source, Dest: b.Dest, ReadOnly: b.ReadOnly})
	}
	if g.SimulatedState != "" {
		o.Binds = append(o.Binds, apptainer.Bind{Source: g.SimulatedState})
	}
	env, more, err := g.Serve(f.slices, true)
	if err != nil {
		return &failure{code: "fence", detail: "MPS: " + err.Error()}
	}
	o.Binds, s.Env = append(o.Binds, more...), override(s.Env, env...)
	s.Env = override(s.Env, "PATH="+value(s.Env, "PATH")+":"+fgpu.DefaultDir) // fgpu-smi is there
	if f.shim {
		s.Fence = apptainer.Fence{Probe: fgpu.ProbeDest, Library: fgpu.LibraryDest, Result: filepath.Join(apptainer.JobDir, proofName), Optional: as.Unfenced}
	}
	return nil
}

// bare is the environment of a run outside a container: a program that keeps it is fenced, the watchdog ends others.
func (t *attempt) bare(f *fence) ([]string, error) {
	g := t.a.cfg.GPUs
	env, _, err := g.Serve(f.slices, false)
	if err != nil {
		return nil, &failure{code: "fence", detail: "MPS: " + err.Error()}
	}
	env = append(env, "FAIRSLICE_FGPU_DIR="+f.dir)
	if f.without {
		env = append(env, "LD_PRELOAD="+filepath.Join(g.Programs, fgpu.LibraryName))
	}
	if g.Simulated != "" {
		env = append(env, "LD_LIBRARY_PATH="+g.Simulated)
	}
	return env, nil
}

// proofName is the file of the job's directory that enter writes its proof to.
const proofName = "fence"

func (t *attempt) proofFile() string { return filepath.Join(t.jobDir(), proofName) }

// proofEvery is how often the proof is looked for; a container takes some hundred milliseconds to start.
const proofEvery = 5 * time.Millisecond

// proven waits until the probe in the container has said that the fence holds. When it returns an error, nothing of the
// job has run. The returned channel takes the place of exits.
func (t *attempt) proven(ctx context.Context, exits <-chan exit) (<-chan exit, error) {
	look := time.NewTicker(proofEvery)
	defer look.Stop()
	for {
		proof, reason, err := t.readProof()
		if err != nil {
			return exits, err
		}
		switch proof {
		case apptainer.Proven:
			t.a.watchdog.enforced(t.key)
			return exits, nil
		case apptainer.ImageCannot:
			if t.rec.Assignment.Unfenced {
				t.report(reason + "; it runs under the watchdog alone")
				return exits, nil
			}
			return exits, &failure{code: "fence", detail: reason, jobFault: true, exitCode: exitCannotRun, verdict: queue.TermOther}
		case apptainer.Broken:
			return exits, &failure{code: "fence", detail: reason}
		}
		select {
		case x := <-exits:
			again := make(chan exit, 1)
			again <- x
			if proof, _, _ := t.readProof(); proof != "" {
				exits = again // it wrote the proof right before it ended
				continue
			}
			return again, nil // Apptainer has failed: nothing of the job has run, and its status says why
		case o := <-t.orders:
			if o.Op == queue.OrderKill || o.Op == queue.OrderForget {
				_ = t.group.Kill(context.Background())
				return exits, t.killedEarly(o)
			}
		case <-look.C:
		case <-ctx.Done():
			return exits, ctx.Err()
		}
	}
}

// killedEarly is the failure of a start that was cut off. That the GPU is gone is not the job's fault: it may begin elsewhere.
func (t *attempt) killedEarly(o queue.Order) *failure {
	if o.Verdict == queue.TermGPULost {
		return &failure{code: "gpu", detail: t.snapshot().Detail}
	}
	return &failure{code: "killed", detail: "killed before it began", jobFault: true, verdict: o.Verdict}
}

// readProof is what enter has written; "" before that. It is read with the user's rights, as the directory is the user's.
func (t *attempt) readProof() (apptainer.Proof, string, error) {
	f, err := shepherd.OpenAs(t.cred(), t.proofFile(), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(f, 4096))
		_ = f.Close()
	}
	if err != nil {
		return "", "", &failure{code: "fence", detail: fmt.Sprintf("its proof cannot be read: %v", err)}
	}
	proof, reason := apptainer.ParseProof(string(text))
	return proof, strings.TrimSpace(reason), nil
}

// override gives variables other values, or adds them.
func override(env []string, with ...string) []string {
	out := make([]string, 0, len(env)+len(with))
	named := map[string]bool{}
	for _, v := range with {
		name, _, _ := strings.Cut(v, "=")
		named[name] = true
	}
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); !named[name] {
			out = append(out, v)
		}
	}
	return append(out, with...)
}

func value(env []string, name string) string {
	for _, v := range env {
		if rest, ok := strings.CutPrefix(v, name+"="); ok {
			return rest
		}
	}
	return ""
}

// report tells the job's people something that does not end it.
func (t *attempt) report(text string) {
	t.a.report(queue.Report{ID: t.id, Attempt: t.number, At: t.a.cfg.Now(), Kind: queue.ReportNoted, Detail: text})
}
