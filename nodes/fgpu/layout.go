package fgpu

import "sync/atomic"

// The layout of nodes/fgpu/abi/region.h, which explains the fields. A test compiles that header and compares.

const (
	sliceMagic = "FSslice\x00"
	usageMagic = "FSusage\x00"
	version    = 1

	maxDevices   = 16
	maxSlots     = 1024
	maxProcesses = 256
	maxHistory   = 600

	pidShift  = 42              // of a slot's key
	startMask = 1<<pidShift - 1 // of a process's start time, what a key keeps
	maxPID    = 1<<(64-pidShift) - 1
)

type sliceFile struct {
	magic      [8]byte
	version    uint32
	size       uint32
	devices    uint32
	policy     atomic.Uint32
	frameUS    uint32
	owner      uint32
	frameStart uint64
	heartbeat  atomic.Uint64
	job        [64]byte
	processSeq atomic.Uint32
	processes  atomic.Uint32
	_          [17]uint64
	device     [maxDevices]sliceDevice
	process    [maxProcesses]sliceProcess
	history    [maxDevices][maxHistory]sliceSample
}

type sliceDevice struct {
	uuid        [48]byte
	limit       uint64
	physical    uint64
	context     atomic.Uint64
	untracked   atomic.Uint64
	driver      atomic.Uint64
	share       uint32
	open        atomic.Uint32
	phase       atomic.Uint32
	index       uint32
	utilization atomic.Uint32
	lost        atomic.Uint32
	mode        uint32
	fgpu        uint32
	historyNext atomic.Uint64
	model       [64]byte
	_           [8]uint64
}

type sliceProcess struct {
	pid    atomic.Uint32
	device atomic.Uint32
	bytes  atomic.Uint64
}

type sliceSample struct {
	mib         uint32
	utilization uint16
	throttled   uint16
}

// usageFile is read as a whole into memory of our own, so that nothing in it needs to be atomic here.
type usageFile struct {
	magic     [8]byte
	version   uint32
	size      uint32
	slotsUsed uint32
	_         uint32
	_         [5]uint64
	counters  [maxDevices]usageCounters
	slot      [maxSlots]usageSlot
}

type usageCounters struct {
	denied      uint64
	launches    uint64
	throttledNS uint64
	peak        uint64
	_           [4]uint64
}

type usageSlot struct {
	key      uint64
	claim    uint64
	used     [maxDevices]uint64
	contexts [2]uint64
	_        [4]uint64
}
