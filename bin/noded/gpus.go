package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"fairslice/etc"
	"fairslice/nodes"
	"fairslice/nodes/agent"
	"fairslice/nodes/cgroup"
	"fairslice/nodes/fgpu"
	"fairslice/nodes/fgpu/mode"
	"fairslice/nodes/nvml"
)

// gpuSet is the node's GPUs; its library is nil where there is no driver.
type gpuSet struct {
	lib  *nvml.Library
	want string // gpu_mode
	node mode.Node
	log  *slog.Logger

	mu       sync.Mutex
	said     map[string]string // by UUID: what was logged of it last
	contexts map[string]int64  // by UUID: what a context costs

	listMu sync.Mutex // guards what follows; held while the driver is asked
	listed time.Time
	last   []part
}

// listFor is how long a list of the GPUs is good: jobs that start, heartbeats and the watchdog ask for it all the time.
const listFor = 500 * time.Millisecond

func openGPUs(n etc.Node, programs string, log *slog.Logger) (*gpuSet, error) {
	g := &gpuSet{want: n.GPUMode, log: log, said: map[string]string{}, contexts: map[string]int64{}}
	_, err := os.Stat(filepath.Join(programs, fgpu.LibraryName))
	g.node.Shim = err == nil
	_, err = exec.LookPath(mpsProgram(n))
	g.node.MPS = err == nil
	lib, err := nvml.Open(n.NVMLLibrary)
	switch {
	case errors.Is(err, nvml.ErrNoDriver) && n.NVMLLibrary == "":
		return g, nil
	case err != nil:
		return nil, err
	}
	g.lib = lib
	return g, nil
}

func (g *gpuSet) close() {
	if g.lib != nil {
		g.lib.Close()
	}
}

// part is one thing that slices are cut from: a GPU, or an instance of one in MIG mode.
type part struct {
	nodes.GPU
	device   nvml.Device
	instance *nvml.Instance // nil for a GPU
}

// parts lists what there is now. The caller does not change it.
func (g *gpuSet) parts() []part {
	g.listMu.Lock()
	defer g.listMu.Unlock()
	if g.lib != nil && time.Since(g.listed) > listFor {
		g.last, g.listed = g.ask(), time.Now()
	}
	return g.last
}

func (g *gpuSet) ask() []part {
	devices, err := g.lib.Devices()
	if err != nil {
		g.log.Error("GPUs cannot be listed", "error", err)
	}
	var out []part
	for _, d := range devices {
		gpu := nodes.GPU{Index: d.Index, UUID: d.UUID, Model: d.Name, Memory: d.Memory, Capacity: nodes.OneFGPU, Simulated: d.Simulated, Lost: d.Lost}
		var instances []nvml.Instance
		if d.MIG && !d.Lost {
			if instances, err = g.lib.Instances(d.UUID); err != nil {
				g.log.Error("MIG instances cannot be listed", "gpu", d.UUID, "error", err)
			}
		}
		facts := mode.GPU{Index: d.Index, UUID: d.UUID, MIG: d.MIG, ComputeCapability: d.ComputeCapability, ComputeMode: string(d.ComputeMode)}
		for _, it := range instances {
			facts.Instances = append(facts.Instances, mode.Instance{UUID: it.UUID, Shared: it.Shared})
		}
		chosen, reason, err := mode.Choose(facts, g.node, g.want)
		if gpu.Mode = chosen; err != nil {
			gpu.Mode, gpu.Unfenced = nodes.ModeCount, err.Error()
		}
		if !d.Lost {
			g.say(d.UUID, gpu, reason)
		}
		if gpu.Mode != nodes.ModeMIG {
			out = append(out, part{GPU: gpu, device: d})
			continue
		}
		for _, it := range instances {
			x := gpu
			x.UUID, x.Parent, x.Memory = it.UUID, d.UUID, it.Memory
			x.Model = strings.TrimSpace(d.Name + " MIG " + it.Profile)
			x.Fraction = fraction(it)
			out = append(out, part{GPU: x, device: d, instance: &it})
		}
	}
	return out
}

// fraction is the part of the GPU that an instance has, in 1/10000, rounded down; 1 where the driver does not tell.
func fraction(it nvml.Instance) int {
	if it.ParentSMs <= 0 || it.SMs <= 0 {
		return 1
	}
	return max(min(it.SMs*fgpu.Whole/it.ParentSMs, fgpu.Whole), 1)
}

// say logs how a GPU is fenced, once and when it changes.
func (g *gpuSet) say(uuid string, gpu nodes.GPU, reason string) {
	text := string(gpu.Mode) + " " + cmp.Or(gpu.Unfenced, reason)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.said[uuid] == text {
		return
	}
	g.said[uuid] = text
	if gpu.Unfenced != "" {
		g.log.Error("a GPU cannot be fenced as gpu_mode says: nothing starts on it", "gpu", uuid, "gpu_mode", g.want, "reason", gpu.Unfenced)
		return
	}
	g.log.Info("GPU", "gpu", uuid, "model", gpu.Model, "mode", string(gpu.Mode), "reason", reason)
}

func (g *gpuSet) list() []nodes.GPU {
	var out []nodes.GPU
	for _, p := range g.parts() {
		out = append(out, p.GPU)
	}
	return out
}

// Read asks the driver who uses a GPU.
func (g *gpuSet) Read(r *fgpu.Reading) error {
	processes, err := g.lib.Processes(r.GPU)
	if errors.Is(err, nvml.ErrLost) {
		r.Lost = true
		return nil
	}
	if err != nil {
		return err
	}
	if u, err := g.lib.Usage(r.GPU); err == nil {
		r.Used = u.MemoryUsed
	}
	for _, p := range processes {
		r.Processes = append(r.Processes, fgpu.GPUProcess{PID: p.Pid, Bytes: p.MemoryUsed})
	}
	return nil
}

// Busy asks the driver what a GPU's processes did.
func (g *gpuSet) Busy(uuid string, since time.Time) (map[int]int, error) {
	samples, err := g.lib.ProcessUtilization(uuid, since)
	if errors.Is(err, nvml.ErrUnsupported) || errors.Is(err, nvml.ErrLost) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	parts := map[int]int{}
	for _, s := range samples {
		parts[s.Pid] = int(s.SMUtil * 100)
	}
	return parts, nil
}

// driverLimits are the driver's memory limits where it has them for a GPU.
type driverLimits struct{ *nvml.MemoryLimits }

func (l driverLimits) Set(group, uuid string, soft, hard int64) error {
	return supported(l.MemoryLimits.Set(group, uuid, soft, hard))
}

func (l driverLimits) Clear(group, uuid string) error {
	return supported(l.MemoryLimits.Clear(group, uuid))
}

func supported(err error) error {
	if errors.Is(err, nvml.ErrUnsupported) {
		return nil
	}
	return err
}

// simulated says that the GPUs are not the machine's own.
func (g *gpuSet) simulated() bool {
	parts := g.parts()
	return len(parts) > 0 && parts[0].Simulated
}

// facts is what a job is told of a GPU.
func (g *gpuSet) facts(uuid string) (agent.GPUFacts, bool) {
	for _, p := range g.parts() {
		if p.UUID != uuid {
			continue
		}
		f := agent.GPUFacts{Memory: p.Memory, Model: p.Model, Lost: p.Lost, MIG: agent.NoInstance}
		if p.instance != nil {
			f.MIG = p.instance.GPUInstance
		}
		g.mu.Lock()
		f.Context = cmp.Or(g.contexts[uuid], defaultContext)
		g.mu.Unlock()
		return f, true
	}
	return agent.GPUFacts{}, false
}

// deny lists the device files of what a job with these slices has no part in. A simulated GPU has none.
func (g *gpuSet) deny(held []nodes.Slice) []cgroup.Device {
	uses, usesParent := map[string]bool{}, map[string]bool{}
	parts := g.parts()
	for _, s := range held {
		uses[s.UUID] = true
	}
	for _, p := range parts {
		if uses[p.UUID] {
			usesParent[p.device.UUID] = true
		}
	}
	var out []cgroup.Device
	add := func(path string) {
		d, err := cgroup.DeviceAt(path)
		if err != nil {
			g.log.Warn("a GPU's device file is not closed to others", "file", path, "error", err)
			return
		}
		out = append(out, d)
	}
	done := map[string]bool{}
	for _, p := range parts {
		if p.Simulated {
			continue
		}
		if !usesParent[p.device.UUID] && p.device.MinorNumber >= 0 && !done[p.device.UUID] {
			done[p.device.UUID] = true
			add("/dev/nvidia" + strconv.Itoa(p.device.MinorNumber))
		}
		if p.instance != nil && !uses[p.UUID] {
			for _, minor := range []int{p.instance.GPUInstanceCap, p.instance.ComputeInstanceCap} {
				if minor >= 0 {
					add("/dev/nvidia-caps/nvidia-cap" + strconv.Itoa(minor))
				}
			}
		}
	}
	return out
}

// defaultContext is what a context is taken to cost where it could not be measured: about what CUDA 12 and 13 take on
// large GPUs. What it really costs is known from the driver a second later.
const defaultContext = 512 << 20

// calibrate measures what a context costs on each GPU, with a program that makes one.
func (g *gpuSet) calibrate(ctx context.Context, programs, driverDir string) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, p := range g.parts() {
		if p.Lost || p.Mode == nodes.ModeCount || p.Mode == nodes.ModeMIG {
			continue
		}
		cmd := exec.CommandContext(ctx, filepath.Join(programs, fgpu.ProbeName), "--context", p.UUID)
		cmd.Env = append(cmd.Environ(), "CUDA_VISIBLE_DEVICES="+p.UUID)
		if driverDir != "" {
			cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+driverDir)
		}
		out, err := cmd.Output()
		bytes, err := parseContext(string(out), p.UUID, err)
		if err != nil {
			g.log.Warn("what a context costs could not be measured; assumed", "gpu", p.UUID, "bytes", int64(defaultContext), "error", err)
			continue
		}
		g.mu.Lock()
		g.contexts[p.UUID] = bytes
		g.mu.Unlock()
		g.log.Info("GPU context", "gpu", p.UUID, "bytes", bytes)
	}
}

// maxContext bounds what is believed: a context of more is another program's memory.
const maxContext = 4 << 30

// parseContext reads the line "UUID BYTES" that the probe prints.
func parseContext(text, uuid string, err error) (int64, error) {
	if err != nil {
		return 0, fmt.Errorf("%w: %.200s", err, strings.TrimSpace(text))
	}
	for line := range strings.Lines(text) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != uuid {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > maxContext {
			return 0, fmt.Errorf("context of %q bytes: want 0 to %d", number, int64(maxContext))
		}
		return n, nil
	}
	return 0, fmt.Errorf("the probe said nothing of GPU %s: %.200q", uuid, text)
}
