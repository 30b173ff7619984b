package agent

import (
	"time"

	"fairslice/queue"
)

// Hello describes the node for a new connection.
func (a *Agent) Hello() queue.Hello {
	n, err := a.cfg.Inventory()
	if err != nil {
		a.cfg.Logger.Error("inventory is incomplete", "error", err)
	}
	n.BootID, n.Unenforced = a.bootID, a.Unenforced()
	h := queue.Hello{Node: n, Version: a.cfg.Version}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range a.attempts {
		h.Attempts = append(h.Attempts, at.state())
	}
	return h
}

// Connected begins to report. Whatever is not acknowledged is reported again.
func (a *Agent) Connected(up queue.Upstream, every time.Duration) {
	a.mu.Lock()
	a.up = up
	a.mu.Unlock()
	for _, at := range a.all() {
		at.reportAgain()
	}
	a.wg.Go(func() { a.heartbeats(up, every) })
}

// Disconnected stops reporting; jobs go on.
func (a *Agent) Disconnected(err error) {
	a.mu.Lock()
	a.up = nil
	a.mu.Unlock()
	if err != nil && a.ctx.Err() == nil {
		a.cfg.Logger.Warn("connection to batchd lost", "error", err)
	}
}

func (a *Agent) heartbeats(up queue.Upstream, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		a.mu.Lock()
		current := a.up == up
		a.mu.Unlock()
		if !current || up.Heartbeat(a.heartbeat()) != nil {
			return
		}
		select {
		case <-a.ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (a *Agent) heartbeat() queue.Heartbeat {
	load, mem := loadAndMemory()
	h := queue.Heartbeat{Load1: load, MemoryAvailable: mem}
	if a.cfg.GPUs != nil {
		for _, g := range a.cfg.GPUs.List() {
			if g.Lost {
				h.LostGPUs = append(h.LostGPUs, g.UUID)
			}
		}
	}
	for _, at := range a.all() {
		if u, ok := at.usageNow(); ok {
			h.Usage = append(h.Usage, queue.AttemptUsage{ID: at.id, Attempt: at.number, Usage: u})
		}
		if f := at.fetch(); f != nil {
			h.Fetches = append(h.Fetches, *f)
		}
	}
	return h
}

// report sends r if the node is connected; otherwise Connected sends it later.
func (a *Agent) report(r queue.Report) {
	a.mu.Lock()
	up := a.up
	a.mu.Unlock()
	if up != nil {
		_ = up.Report(r) // a failure means that the connection is gone, and the report is repeated
	}
}

// Assign takes an assignment. One that is known already changes nothing.
func (a *Agent) Assign(as queue.Assignment) {
	key := as.ID.AttemptKey(as.Attempt)
	if at := a.find(as.ID, as.Attempt); at != nil {
		at.reportAgain()
		return
	}
	if a.isEnding() {
		return // batchd assigns it again when the node comes back
	}
	r := newRecord(as, a.bootID)
	if err := a.spool.create(key, r); err != nil {
		// Not taken: the disk is full or broken. The attempt goes back, and this node is avoided by its back-off.
		a.cfg.Logger.Error("assignment refused", "attempt", key, "error", err)
		a.report(queue.Report{ID: as.ID, Attempt: as.Attempt, At: a.cfg.Now(), Kind: queue.ReportFailed, Code: "spool", Detail: err.Error()})
		return
	}
	a.begin(a.add(key, r))
}

// Order acts on an attempt. For one that is not here there is nothing to do.
func (a *Agent) Order(o queue.Order) {
	if at := a.find(o.ID, o.Attempt); at != nil {
		at.order(o)
	}
}

// Acknowledged lets go of what batchd has made durable.
func (a *Agent) Acknowledged(id queue.ElementID, number int, kind queue.ReportKind) {
	if at := a.find(id, number); at != nil {
		at.acknowledged(kind)
	}
}
