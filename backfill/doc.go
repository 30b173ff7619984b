// Package backfill plans: from a snapshot of what waits, what runs and what is free, it decides what
// starts now, what start it promises to whom, and why everything else waits. Plan is a pure function
// of its Snapshot: no clock, no I/O, the same snapshot gives the same plan.
//
// The policy is EASY backfill (Lifka, 1995): elements start in order while they fit; the first one
// that does not fit, and could fit, is promised the earliest time at which running elements will have
// made room by their run limits; whoever comes later in order starts only if that promise still holds.
//
// Invariants:
//
//  1. No start exceeds what a node has: every start is carved from a copy of the node by nodes.Carve.
//  2. A start never moves the promised start later: it ends before it, or fits beside it on the same nodes.
//  3. The plan is deterministic, and bounded by Snapshot.MaxLooks; reaching the bound is reported.
//
// Elements of one Shape are one class: if one does not fit, none does, so the plan looks at each class once.
package backfill
