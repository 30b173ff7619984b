// Package fgpu is noded's half of the fence: what makes a slice of a GPU more than bookkeeping. It owns the files
// through which noded and the shim speak about one attempt's slices, and the decisions taken from what
// the driver measures. It asks no driver, kills no process and writes no log: nodes/nvml reads, nodes/agent acts.
//
// How the fence works:
//
//	job's process ──▶ libfgpu.so ──▶ libcuda ──▶ GPU
//	                      │ ▲                      │
//	                 usage│ │slice                 │ NVML: memory and time by process
//	                      ▼ │                      ▼
//	                   this package ◀─────────── noded ──▶ warn, terminate
//
// It has four parts, each for what the others cannot do.
//
// The shim (nodes/fgpu/shim) is preloaded into each program of the job (place.go). It refuses the allocation that would exceed
// the limit before the driver sees it, and lets launches pass only in the job's window of each frame. It is exact and quick,
// but lives in the tenant's process: a program can get around it if it wants to, and a static one, or one of musl, does not have it.
//
// The region (region.go, view.go, usage.go) is two files. In slice noded says what the job may use; the container has it
// read-only. In usage the job's processes say what they hold, so that they see each other's claims without a lock or a
// server. It carries the numbers and enforces nothing: a tenant can write nonsense into usage, which harms its own accounting only.
//
// The watchdog (watchdog.go) compares what the driver says each process holds with the limit of the job it belongs to. No program
// evades it, for it takes nobody's word but the driver's. But it comes after the fact and can only end the job; and it looks
// at memory: who launches past the shim and keeps to its memory takes others' time, which is seen in the metrics only.
//
// The share controller (frame.go, share.go) says which part of each frame is whose and corrects it slowly by the driver's figures. It shares
// time, not multiprocessors: a kernel cannot be stopped and may run over its window (the shim pays that back later), and caches and
// memory bandwidth are everyone's. Only MPS and MIG fence these; on such GPUs (nodes.Mode) the gate stays open.
//
// Rules:
//
//  1. The memory a job holds on a device is the sum of its slots, never a total of its own, so a killed process
//     leaves nothing wrong but its slot, which noded alone clears (Region.Sweep). There is one Region per directory at a time.
//  2. Nothing that is read from usage decides over another job, or ends this one: it is shown, and makes the job's own room
//     and window smaller or larger, within what the watchdog and the bounds in share.go allow.
//  3. usage belongs to the tenant, who can truncate it. It is therefore read and written with pread and
//     pwrite, never mapped here: a load from a page that is gone would end noded with SIGBUS.
//  4. The windows of one GPU's slices do not overlap while their shares add up to at most 100 percent, and a
//     window moves only to make room that is not there otherwise (Phases).
//  5. Who is asked twice answers the same: Create after a crash finds the region it made, and the watchdog's
//     verdict needs two looks in a row.
//
// frame.go, share.go, watchdog.go, meter.go, plot.go, untracked.go and classify.go are pure: time is an argument.
package fgpu
