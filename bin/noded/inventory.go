package main

import (
	"errors"
	"log/slog"

	"fairslice/etc"
	"fairslice/nodes"
	"fairslice/nodes/agent"
	"fairslice/nodes/nvml"
)

// gpuSet is the node's GPUs; its library is nil where there is no driver.
type gpuSet struct {
	lib *nvml.Library
	log *slog.Logger
}

func openGPUs(path string, log *slog.Logger) (*gpuSet, error) {
	lib, err := nvml.Open(path)
	switch {
	case errors.Is(err, nvml.ErrNoDriver) && path == "":
		return &gpuSet{log: log}, nil
	case err != nil:
		return nil, err
	}
	return &gpuSet{lib, log}, nil
}

func (g *gpuSet) close() {
	if g.lib != nil {
		g.lib.Close()
	}
}

func (g *gpuSet) devices() []nvml.Device {
	if g.lib == nil {
		return nil
	}
	devices, err := g.lib.Devices()
	if err != nil {
		g.log.Error("GPUs cannot be listed", "error", err)
	}
	return devices
}

// real says that the GPUs are the machine's own, whose driver containers need.
func (g *gpuSet) real() bool {
	for _, d := range g.devices() {
		if !d.Simulated {
			return true
		}
	}
	return false
}

func (g *gpuSet) lost() []string {
	var out []string
	for _, d := range g.devices() {
		if d.Lost {
			out = append(out, d.UUID)
		}
	}
	return out
}

// inventory says what the node has: what the configuration says, or else what the machine has.
func inventory(n etc.Node, gpus *gpuSet) func() (nodes.Node, error) {
	return func() (nodes.Node, error) {
		cores, memory, kind, model := agent.HostFacts()
		out := nodes.Node{ID: nodes.ID(n.Name), Slots: n.Slots, Memory: n.Memory, Type: n.Type, Model: model}
		if out.Slots == 0 {
			out.Slots = cores
		}
		if out.Memory == 0 {
			out.Memory = max(memory-n.MemoryReserve, 0)
		}
		if out.Type == "" {
			out.Type = kind
		}
		for _, d := range gpus.devices() {
			out.GPUs = append(out.GPUs, nodes.GPU{Index: d.Index, UUID: d.UUID, Model: d.Name, Memory: d.Memory,
				// The fence is not built yet: slices are counted, nothing holds a program to its own.
				Mode: nodes.ModeCount, Capacity: nodes.OneFGPU, Simulated: d.Simulated, Lost: d.Lost})
		}
		return out, nil
	}
}
