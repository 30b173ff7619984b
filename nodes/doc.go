// Package nodes owns what a cluster is made of: amounts of GPU (fGPU), nodes, their GPUs, and the
// slices of them that jobs hold. It decides what fits, in one function for the planner, the
// committer and the node alike, and it never does any I/O.
//
// Invariants:
//
//  1. On no GPU do the slices exceed its capacity; on no node do the held slots, memory or
//     consumables exceed what the node has. Carve is the only function that takes, Release the only
//     one that gives back, and Carve refuses what Fit refuses.
//  2. A fraction lies on one GPU. Only a request for more than one GPU's capacity spans several,
//     and then it takes whole GPUs and at most one fraction.
//  3. An Amount is an integer number of 1/100 fGPU. Floats never enter.
//  4. An instance of a GPU (ModeMIG) is given whole, to one attempt: its slice is all of it, whatever less was asked
//     for. Requests for whole GPUs, for more than one GPU and for several slices never take instances. New slices on a GPU in
//     ModeMPS are of one user at a time. A GPU that is lost or unfenced gives no new slices.
//
// How GPUs are enforced, and what that means here (Mode):
//
//	mig            each instance is a GPU of its own, with its own size and part of the multiprocessors
//	mps            one user's slices share the GPU (GPU.Holder); who asks without a user gets all of it
//	shim, count    everybody's slices share the GPU
//
// Where the mode of a GPU changes under slices, they run on; the GPU gives slices by the new rules
// as soon as those let it, and in ModeMIG and ModeMPS not before the last of the old ones has ended.
//
// States of a node:
//
//	        join                   heartbeats stop
//	(new) ───────▶ up ──────────────────────────────▶ down
//	                │ ▲                                 │
//	 hclose (admin) │ │ hopen                           │ the node is back
//	                ▼ │                                 ▼
//	              drained ◀──────────────────── (as it was before)
package nodes
