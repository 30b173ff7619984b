package queue

import (
	"fairslice/nodes"
)

// Book is every live job, node and queue state in memory. One goroutine changes it, by Apply.
type Book struct {
	Jobs  map[JobID]*Job
	Nodes map[nodes.ID]*nodes.Node
	// Queues holds what administrators changed; a queue without an entry is open and active.
	Queues map[string]QueueState

	LastSeq int64 // of the last event applied
	LastJob JobID

	order []JobID // submission order, may hold forgotten ids until compacted
}

// QueueState is what administrators set of a queue at run time.
type QueueState struct {
	Closed bool   `json:"closed"`
	Inact  bool   `json:"inactive"`
	Reason string `json:"reason,omitempty"`
}
