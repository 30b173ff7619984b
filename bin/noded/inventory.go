package main

import (
	"fairslice/etc"
	"fairslice/nodes"
	"fairslice/nodes/agent"
)

// inventory says what the node has: what the configuration says, or else what the machine has.
func inventory(n etc.Node, gpus *gpuSet) func() (nodes.Node, error) {
	return func() (nodes.Node, error) {
		cores, memory, kind, model := agent.HostFacts()
		out := nodes.Node{ID: nodes.ID(n.Name), Slots: n.Slots, Memory: n.Memory, Type: n.Type, Model: model, GPUs: gpus.list()}
		if out.Slots == 0 {
			out.Slots = cores
		}
		if out.Memory == 0 {
			out.Memory = max(memory-n.MemoryReserve, 0)
		}
		if out.Type == "" {
			out.Type = kind
		}
		return out, nil
	}
}
