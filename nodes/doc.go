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
