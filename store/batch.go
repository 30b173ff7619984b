package store

import (
	"fmt"
	"time"

	"fairslice/images"
	"fairslice/nodes"
	"fairslice/queue"
)

// Batch is what the single writer makes durable at once: events, and the rows as they are after them. Slices
// and charges are not given: they follow from the events. The same batch may be committed again; a row that
// is named twice counts once.
type Batch struct {
	Term   int64         // of the lease under which the events were made
	Events []queue.Event // numbered without gaps, after the last one committed; At in whole microseconds

	Jobs     []*queue.Job // rows to write: new jobs, and those whose own fields changed; their elements are not looked at
	Elements []ElementRow // elements that left their first state, or changed after that
	// Nodes whose state or held resources changed. A node's own fields are written with an event about the node (or in a
	// batch without events); with other events only what is held.
	Nodes  []*nodes.Node
	Queues map[string]queue.QueueState
	// Reservations by ID; nil for one that is deleted.
	Reservations map[string]*queue.Reservation

	// Images by number; nil for one that is forgotten.
	Images  map[images.ID]*images.Image
	Commits []*images.Commit

	GPUHours []GPUHour // instead of what is stored of these hours under Term

	// Policy is set by a batch that changes it.
	Policy *queue.PolicyState

	// Forgotten jobs lose their rows; their events and charges stay.
	Forgotten []queue.JobID
	// Blobs are scripts and environments by the lower-case hexadecimal SHA-256 of their bytes. A batch that
	// submits or modifies a job brings the blobs that the job names, also when they were stored before: see SweepBlobs.
	Blobs map[string][]byte
}

// ElementRow names an element and its job.
type ElementRow struct {
	Job     queue.JobID
	Element *queue.Element
}

// heldSlice is one row of slices.
type heldSlice struct {
	id      queue.ElementID
	attempt int
	node    nodes.ID
	nodes.Slice
}

// chargeRow is one row of charges.
type chargeRow struct {
	id      queue.ElementID
	attempt int
	seq     int64 // of the event
	*queue.Charge
}

type attemptID struct {
	id      queue.ElementID
	attempt int
}

// derived is what follows from the events of a batch.
type derived struct {
	taken   []heldSlice // by attempts that are still live after the batch
	freed   []attemptID // attempts that ended, and were live before the batch
	charges []chargeRow
	joined  []nodes.ID // nodes that came with a new inventory
	// changed are the nodes of which more changed than what is held; nil in a batch without events: all of them.
	changed map[nodes.ID]bool
}

// derive checks the numbering and folds the events into rows. What starts and ends within the batch leaves no slices.
func (b *Batch) derive() (*derived, error) {
	d := &derived{}
	if len(b.Events) > 0 {
		d.changed = map[nodes.ID]bool{}
	}
	started := map[attemptID][]nodes.Allocation{}
	var order []attemptID
	end := func(ev *queue.Event, attempt int, c *queue.Charge) {
		at := attemptID{queue.ElementID{Job: ev.Job, Index: ev.Index}, attempt}
		if _, here := started[at]; here {
			delete(started, at)
		} else if attempt > 0 {
			d.freed = append(d.freed, at)
		}
		if c != nil {
			d.charges = append(d.charges, chargeRow{at.id, attempt, ev.Seq, c})
		}
	}
	for i := range b.Events {
		ev := &b.Events[i]
		if want := b.Events[0].Seq + int64(i); ev.Seq != want || ev.Seq <= 0 {
			return nil, fmt.Errorf("event %d of the batch has number %d, want %d", i, ev.Seq, want)
		}
		if !ev.At.Equal(ev.At.Truncate(time.Microsecond)) {
			// The database would cut it, and the history would tell another time than the Book.
			return nil, fmt.Errorf("event %d: its time is not in whole microseconds", ev.Seq)
		}
		switch body := ev.Body.(type) {
		case *queue.Started:
			at := attemptID{queue.ElementID{Job: ev.Job, Index: ev.Index}, body.Attempt}
			started[at], order = body.Alloc, append(order, at)
		case *queue.Ended:
			if body.Attempt > 0 && body.Charge == nil {
				return nil, fmt.Errorf("event %d: attempt %d of %d[%d] ends without a charge", ev.Seq, body.Attempt, ev.Job, ev.Index)
			}
			end(ev, body.Attempt, body.Charge)
		case *queue.Requeued: // no charge when it had ended, and was charged, before
			end(ev, body.Attempt, body.Charge)
		case *queue.NodeJoined:
			d.joined = append(d.joined, body.Node.ID)
			d.changed[body.Node.ID] = true
		case *queue.NodeLost:
			d.changed[body.Node] = true
		case *queue.NodeClosed:
			d.changed[body.Node] = true
		case *queue.NodeOpened:
			d.changed[body.Node] = true
		}
	}
	for _, at := range order {
		for _, a := range started[at] {
			for _, s := range a.Slices {
				d.taken = append(d.taken, heldSlice{at.id, at.attempt, a.Node, s})
			}
		}
	}
	return d, nil
}
