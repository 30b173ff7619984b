package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"fairslice/etc"
	"fairslice/nodes"
	"fairslice/nodes/agent"
	"fairslice/nodes/apptainer"
	"fairslice/nodes/fgpu"
	"fairslice/nodes/fgpu/mps"
	"fairslice/nodes/fgpu/simdriver"
)

// fencing is what fences slices of this node's GPUs besides the agent: the MPS daemons, and a simulated driver's place.
type fencing struct {
	gpus    *gpuSet
	daemons map[string]*mps.Daemon // by the UUID of a GPU in mode mps
	pipes   map[string]string      // its pipe directory
}

// newFencing prepares what jobs with slices need. The agent's part of it is nil on a node without GPUs.
func newFencing(ctx context.Context, n etc.Node, gpus *gpuSet, programs string, log *slog.Logger) (*fencing, *agent.GPUs, error) {
	f := &fencing{gpus: gpus, daemons: map[string]*mps.Daemon{}, pipes: map[string]string{}}
	if gpus.lib == nil {
		return f, nil, nil
	}
	policy, err := fgpu.ParsePolicy(n.GPUShare)
	if err != nil {
		return nil, nil, err
	}
	a := &agent.GPUs{Driver: gpus, Programs: programs, Policy: policy, List: gpus.list, Facts: gpus.facts, Serve: f.serve, Ours: f.ours}
	dir := cmp.Or(n.RunDir, n.StateDir)
	if gpus.simulated() {
		a.Simulated, a.SimulatedState = filepath.Join(dir, "simdriver"), os.Getenv(simdriver.StateVar)
		if err := placeSimulated(n, a.Simulated); err != nil {
			return nil, nil, err
		}
	} else {
		a.Real, a.Deny = true, gpus.deny
	}
	if limits := gpus.lib.MemoryLimits(); limits != nil {
		a.Limits = driverLimits{limits}
	}
	f.startMPS(ctx, n, dir, a.Simulated, log)
	gpus.calibrate(ctx, programs, a.Simulated)
	return f, a, nil
}

// placeSimulated puts a simulated driver's libraries and the description of its GPUs into a directory that containers are shown: there
// they take the place of the real libraries, which need no variables to find their GPUs.
func placeSimulated(n etc.Node, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("simulated driver: %w", err)
	}
	from := filepath.Dir(n.NVMLLibrary)
	for _, name := range []string{simdriver.CUDALibraryName, simdriver.LibraryName} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".new"), data, 0o755)
		}
		if err == nil {
			err = os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name))
		}
		if err != nil {
			return fmt.Errorf("simulated driver: %w", err)
		}
	}
	return simdriver.WriteConf(dir, os.Getenv(simdriver.GPUsVar), os.Getenv(simdriver.NodeVar), os.Getenv(simdriver.StateVar), func(c *simdriver.Conf) {
		c.MIG, c.Context, c.Block, c.CUDA = os.Getenv(simdriver.MIGVar), os.Getenv(simdriver.ContextVar), os.Getenv(simdriver.BlockVar), os.Getenv(simdriver.CUDAVar)
	})
}

// startMPS runs the control daemon of each GPU in mode mps. Where one does not start, jobs with
// slices of that GPU fail to start, with the reason, until noded starts anew.
func (f *fencing) startMPS(ctx context.Context, n etc.Node, dir, simulated string, log *slog.Logger) {
	for _, p := range f.gpus.parts() {
		if p.Mode != nodes.ModeMPS {
			continue
		}
		pipes := filepath.Join(dir, "mps", fmt.Sprint(p.Index))
		cfg := mps.Config{Binary: mpsProgram(n), UUID: p.UUID, PipeDir: pipes, LogDir: filepath.Join(n.StateDir, "mps-log", fmt.Sprint(p.Index)), Log: log}
		if simulated != "" {
			cfg.Env = []string{"LD_LIBRARY_PATH=" + simulated}
		}
		d, err := mps.Start(ctx, cfg)
		if err != nil {
			log.Error("MPS does not start: jobs with slices of this GPU will not start either", "gpu", p.UUID, "error", err)
			continue
		}
		f.daemons[p.UUID], f.pipes[p.UUID] = d, pipes
	}
}

// mpsProgram is the MPS control program: the one beside the driver library that the site has named, or else that in PATH.
func mpsProgram(n etc.Node) string {
	const name = "nvidia-cuda-mps-control"
	if n.NVMLLibrary != "" {
		if beside := filepath.Join(filepath.Dir(n.NVMLLibrary), name); fileExists(beside) {
			return beside
		}
	}
	return name
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// end lets the MPS daemons run on for their clients, or quits them where noded's end is that of its jobs.
func (f *fencing) end(quit bool, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), jobsEndWithin)
	defer cancel()
	for _, d := range f.daemons {
		if !quit {
			d.Leave()
		} else if err := d.Quit(ctx); err != nil {
			log.Warn("MPS does not end", "error", err)
		}
	}
}

// serve makes a job's processes clients of their GPU's MPS daemon.
func (f *fencing) serve(held []nodes.Slice, contained bool) (env []string, binds []apptainer.Bind, err error) {
	i := slices.IndexFunc(held, func(s nodes.Slice) bool { return s.Mode == nodes.ModeMPS })
	if i < 0 {
		return nil, nil, nil
	}
	d := f.daemons[held[i].UUID]
	if d == nil {
		return nil, nil, fmt.Errorf("no daemon runs for GPU %s", held[i].UUID)
	}
	if s := d.State(); !s.Ready {
		return nil, nil, fmt.Errorf("the daemon of GPU %s is not ready: %w", held[i].UUID, s.Problem)
	}
	c, err := mps.ClientOf(held, f.pipes[held[i].UUID])
	if err != nil {
		return nil, nil, err
	}
	if !contained {
		return append(c.Env, "CUDA_MPS_PIPE_DIRECTORY="+c.HostDir), nil, nil
	}
	return c.Env, []apptainer.Bind{{Source: c.HostDir, Dest: c.GuestDir}}, nil
}

// ours says that a process on a GPU is an MPS server's.
func (f *fencing) ours(pid int) bool {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && len(f.daemons) > 0 && string(comm) == "nvidia-cuda-mps\n"
}
