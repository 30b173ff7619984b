package store_test

import (
	"testing"

	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/store/storetest"
)

// What a node says of how its GPUs are enforced comes back after a restart, and so does who alone may have more of one.
func TestModesOfGPUsComeBack(t *testing.T) {
	t.Parallel()
	w := newWriter(t, storetest.Open(t))
	n := node("n1")
	n.GPUs = []nodes.GPU{
		{Index: 0, UUID: "GPU-0", Model: "Sim", Memory: 8 << 30, Capacity: 200, Mode: nodes.ModeMPS},
		{Index: 1, UUID: "MIG-1", Model: "Sim", Memory: 1 << 30, Capacity: 28, Mode: nodes.ModeMIG, Parent: "GPU-1", Fraction: 1428},
		{Index: 2, UUID: "GPU-2", Model: "Sim", Memory: 8 << 30, Capacity: 200, Mode: nodes.ModeShim, Unfenced: "the probe was not loaded"},
	}
	shares := &queue.Started{Attempt: 1, Alloc: []nodes.Allocation{{Node: "n1", Slots: 1, User: "ada",
		Slices: []nodes.Slice{{UUID: "GPU-0", Amount: 50, Memory: 2 << 30, SMShare: 2500, Mode: nodes.ModeMPS}}}}}
	instance := &queue.Started{Attempt: 1, Alloc: []nodes.Allocation{{Node: "n1", Slots: 1,
		Slices: []nodes.Slice{{UUID: "MIG-1", Index: 1, Amount: 28, Memory: 1 << 30, SMShare: 1428, Mode: nodes.ModeMIG}}}}}
	w.do(ev(0, 0, &queue.NodeJoined{Node: n}))
	w.do(ev(1, 0, submitted("", nil)), ev(2, 0, submitted("", nil)))
	w.do(ev(1, 0, shares), ev(2, 0, instance))
	w.check()
	got := restored(t, w.s).Nodes["n1"].GPUs
	if got[0].Holder != "ada" || got[1].Parent != "GPU-1" || got[1].Fraction != 1428 || got[1].Used != 28 || got[2].Unfenced != "the probe was not loaded" {
		t.Errorf("after a restart: %+v", got)
	}
	w.do(ev(1, 0, ended(1, 0, w.now)), ev(2, 0, ended(1, 0, w.now)))
	w.check()
	if got := restored(t, w.s).Nodes["n1"].GPUs; got[0].Holder != "" || got[1].Used != 0 {
		t.Errorf("with nothing held: %+v", got)
	}
}
