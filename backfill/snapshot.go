package backfill

import (
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// Snapshot is all that a plan depends on. Plan changes Nodes: they are its own copies.
type Snapshot struct {
	Now     time.Time
	Nodes   []*nodes.Node // sorted by ID
	Running []Running
	// Pending is in the order in which elements are to be served. What may not start whatever is
	// free (held, dependency, limits) is left out by Eligible before.
	Pending []Pending
	// Select says whether a node is one of those a shape may use: select[], -m and the queue's hosts.
	// Of the shape it may look at Queue, Hosts and Select only. It must answer the same for the same
	// arguments during one plan.
	Select func(*nodes.Node, *queue.Shape) bool
	// MaxStarts and MaxLooks bound the work; 0 means no bound.
	MaxStarts int
	MaxLooks  int
	// MaxForecasts is for how many blocked classes an expected start is worked out.
	MaxForecasts int
}

// Running is a live attempt.
type Running struct {
	ID    queue.ElementID
	Alloc []nodes.Allocation
	// Ends is when it ends at the latest by its run limit; the zero time means never.
	Ends time.Time
}

// Pending is one job's elements that wait, of one shape.
type Pending struct {
	Job     queue.JobID
	Shape   *queue.Shape
	Indices []int // the elements that may start, in order

	// SlotLimits are the slots left under each limit that the job counts against (of its queue, of its
	// user); ElementLimit the elements that may still start (of its array). Shared between jobs, and
	// counted down as the plan starts elements. An element kept out by a limit holds no promise: it
	// could not use it (openpbs#2518).
	SlotLimits   []*int
	ElementLimit *int
}

// Plan is the decision.
type Plan struct {
	Starts []Start
	// Waits says, for each class that was looked at and has elements left, why.
	Waits map[queue.Shape]Wait
	// Reserved is the element that holds the promise, if any.
	Reserved *Reservation
	// Bounded says that a bound of the snapshot ended the plan early.
	Bounded bool
	Looks   int
}

// Start is an element to start now on this allocation.
type Start struct {
	ID    queue.ElementID
	Shape *queue.Shape
	Alloc []nodes.Allocation
}

// Wait is why the elements of a class do not start.
type Wait struct {
	Reasons  []queue.Reason
	Expected time.Time // when the first of them is expected to start; zero when unknown
}

// Reservation is a promised start.
type Reservation struct {
	ID    queue.ElementID
	At    time.Time
	Nodes []nodes.ID
}
