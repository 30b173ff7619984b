package engine

import "fairslice/queue"

// charge is what the attempt of an element has cost, for the event that ends it.
func (t *tx) charge(j *queue.Job, el *queue.Element, u queue.Usage, o queue.Ending, v queue.Verdict) *queue.Charge {
	c := queue.ChargeOf(j, el, u, t.now)
	c.Outcome, c.Verdict = o, v
	return c
}

func ending(done bool) queue.Ending {
	if done {
		return queue.EndingDone
	}
	return queue.EndingExit
}
