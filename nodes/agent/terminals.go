package agent

import (
	"maps"
	"slices"

	"fairslice/queue"
)

// joinTerminals has a terminal hear what is told to who is at the session, until leave is called. A stream without a terminal does
// not: what it carries is data.
func (t *attempt) joinTerminals(p queue.Pipe) (leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.terminals == nil {
		t.terminals = map[queue.Pipe]bool{}
	}
	t.terminals[p] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.terminals, p)
	}
}

// tell writes a line on the terminals that are open now. It goes to their users, past the job's terminal: the job's output has
// nothing of it, nor has what a later terminal is shown again. One that takes nothing holds nobody up.
func (t *attempt) tell(text string) {
	line := queue.PipeOutput{Data: []byte("\r\nfairslice: " + text + "\r\n")}
	t.mu.Lock()
	open := slices.Collect(maps.Keys(t.terminals))
	t.mu.Unlock()
	for _, p := range open {
		t.a.wg.Go(func() { _ = p.Send(line) }) // it may just be gone
	}
}
