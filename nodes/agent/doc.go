// Package agent is the node's side: it takes assignments, runs them, watches them, and reports facts
// until batchd has acknowledged them.
//
// One goroutine (attempt.run) lives an attempt's whole life; what it must not forget is in the
// attempt's record in the spool:
//
//	accepted ──▶ running ──▶ ended ──▶ (acknowledged: everything of it is removed)
//	    │           │
//	    │           └ noded died: reconnect to the shepherd, or read the status it left
//	    └ noded died: the shepherd's file says whether it was started; if not, start it
//
// That it runs is written down, and reported, when it has run for a moment: a shorter job is written down twice, and its
// end reports its beginning. Until then the shepherd's file says that it was started.
//
// An attempt with slices of GPUs has a region besides (package fgpu), made before it starts. Where libfgpu.so is to hold it, it
// counts as running only when the probe in its container has proven that, and otherwise goes back (fence.go). One watchdog looks at all
// GPUs and jobs, publishes in the regions what the driver says, and ends who holds too much (watchdog.go).
//
// After a reboot (another boot id) whatever was there is reported as lost.
//
// The spool is not fsynced: it survives the death of any process. After a power failure records may be
// missing; batchd then finds that the node does not know the attempt, and settles it.
package agent
