package backfill

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"fairslice/backfill/placement"
	"fairslice/nodes"
	"fairslice/queue"
)

// Planner keeps what plans depend on and plans again and again: it is told what has changed, and looks only at
// what that can have changed. What it plans is what Make would plan from nothing. Not for concurrent use.
type Planner struct {
	// Select is Snapshot.Select. After it may answer differently, Reselect must be called.
	Select func(*nodes.Node, *queue.Shape) bool
	// Share says how much somebody deserves to be served, more first. It is asked when a plan begins, and for those of
	// whom something has started in it.
	Share func(Claimant) float64
	// Started, if not nil, is told in each plan of whatever starts, or is promised a start, so that Share can count it for
	// the rest of that plan (openpbs#1661).
	Started func(who Claimant, s *queue.Shape, alloc []nodes.Allocation)
	// Predictor, if not nil, estimates run times for orders that use them.
	Predictor *Predictor

	policy    Policy
	placement placement.Policy
	now       instant
	location  *time.Location
	planning  bool
	plans     uint64 // made so far
	narrowed  uint64 // how often a sequence was

	hosts     []*host // in the order of their IDs
	byID      map[hostKey]*host
	unsorted  bool // hosts have been added since they were sorted
	stale     []*host
	kinds     kinds
	claimed   []*host // hosts with claims, in the order of their IDs
	inventory uint64  // counts changes of what the hosts could ever take

	running map[queue.ElementID]*running
	freed   []*host // hosts on which something has been freed, the latest last
	before  int     // how many were forgotten from the front of freed

	// room counts every change by which something may have become able to start; open says that there was one
	// since the last plan; lost that promises may no longer be possible.
	room  uint64
	laid  uint64 // counts the changes of what is promised
	open  bool
	moved bool // promises have moved in the last plan, and some may have been looked at before
	lost  bool

	classes    map[queue.Shape]*class
	groups     map[groupKey]*group
	items      map[queue.JobID]*item
	selections map[selection]*candidates
	promises   map[queue.JobID][]*promise
	has        total // see total
	waiting    int64 // slot-seconds: the work of all that waits
	windows    map[string]*window
	turn       instant // when the next window opens or closes
	users      map[Claimant]*user
	sequence   sequence // of Order
	second     sequence // of Candidates; nil when it is the same
	lots       []lot    // scratch
	blocker    *group   // that nothing passed in the last plan (fcfs)
}

// running is an attempt and what it holds on each host.
type running struct {
	alloc  []nodes.Allocation
	holds  []hold
	ends   instant
	window string
	user   string
	limits []*Limit
}

// hostKey names a host: a node, or the part of it that an advance reservation has.
type hostKey struct {
	id     nodes.ID
	window string
}

// New makes a planner for a cluster without nodes and jobs.
func New(policy Policy) *Planner {
	p := &Planner{policy: policy, location: time.UTC, placement: policy.Placement,
		byID: map[hostKey]*host{}, windows: map[string]*window{}, turn: never, users: map[Claimant]*user{}, running: map[queue.ElementID]*running{}, classes: map[queue.Shape]*class{},
		groups: map[groupKey]*group{}, items: map[queue.JobID]*item{}, selections: map[selection]*candidates{},
		promises: map[queue.JobID][]*promise{}}
	p.kinds.byKey = map[string]*kind{}
	if p.placement == nil {
		p.placement = placement.BestFit()
	}
	if policy.Order == nil {
		p.policy.Order = FCFS
	}
	p.sequence = p.sequenceOf(p.policy.Order, 0)
	if c := policy.Candidates; c != nil && c != p.policy.Order {
		p.second = p.sequenceOf(c, 1)
	}
	return p
}

func (p *Planner) sequenceOf(o Order, which int) sequence {
	if o.static() {
		return &sorted{order: o}
	}
	return &heaped{order: o, which: which, p: p}
}

// PutNode adds a node, or takes over the inventory and the state of one that is there. What is held on it is
// what Begin and End say; n is kept and changed.
func (p *Planner) PutNode(n *nodes.Node) {
	windows := p.windowsOn(n.ID)
	for _, w := range windows { // they are put there again
		p.RemoveWindow(w.ID)
	}
	h := p.byID[hostKey{n.ID, ""}]
	n.UsedSlots, n.UsedMemory, n.UsedConsumables, n.Holders, n.Taken = 0, 0, "", 0, false
	for i := range n.GPUs {
		n.GPUs[i].Used, n.GPUs[i].Holder = 0, ""
	}
	if h == nil {
		p.addHost(newHost(n))
	} else {
		p.kinds.leave(h)
		index, claims, stale := h.index, h.claims, h.stale
		*h = *newHost(n)
		h.index, h.claims, h.stale = index, claims, stale
		p.rebuild(h)
		p.touch(h)
		p.lost = p.lost || len(p.promises) > 0
	}
	p.Reselect()
	for _, w := range windows {
		p.PutWindow(w)
	}
}

func (p *Planner) addHost(h *host) {
	p.hosts, p.unsorted = append(p.hosts, h), true
	p.byID[hostKey{h.id, h.window}] = h
	p.touch(h)
}

// rebuild holds again on h what is held there.
func (p *Planner) rebuild(h *host) {
	for _, r := range p.running {
		for i := range r.holds {
			if r.holds[i].host == h {
				h.take(&r.alloc[i])
				r.holds[i] = h.hold(&r.alloc[i], r.holds[i].from, r.ends)
				h.line.add(&r.holds[i], p.now)
			}
		}
	}
	for _, pr := range p.allPromises() {
		for i := range pr.holds {
			if pr.placed && pr.holds[i].host == h {
				pr.holds[i] = h.hold(&pr.alloc[i], pr.at, pr.holds[i].to)
				h.line.add(&pr.holds[i], p.now)
			}
		}
	}
}

// RemoveNode forgets a node. What was held on it must have ended.
func (p *Planner) RemoveNode(id nodes.ID) {
	windows := p.windowsOn(id)
	for _, w := range windows {
		p.RemoveWindow(w.ID)
	}
	if h := p.byID[hostKey{id, ""}]; h != nil {
		p.removeHost(h)
		p.Reselect()
	}
	for _, w := range windows { // should the node come back
		p.PutWindow(w)
	}
}

func (p *Planner) removeHost(h *host) {
	for _, pr := range p.allPromises() {
		if slices.ContainsFunc(pr.holds, func(x hold) bool { return x.host == h }) {
			p.withdraw(pr)
		}
	}
	p.kinds.leave(h)
	delete(p.byID, hostKey{h.id, h.window})
	gone := func(x *host) bool { return x == h }
	p.hosts, p.claimed, p.stale = slices.DeleteFunc(p.hosts, gone), slices.DeleteFunc(p.claimed, gone), slices.DeleteFunc(p.stale, gone)
	p.before, p.freed = p.before+len(p.freed)+1, p.freed[:0] // whoever has not looked since looks everywhere
	p.unsorted = true
}

// Reselect must be called when Select may answer differently: the queues have changed.
func (p *Planner) Reselect() {
	clear(p.selections)
	for _, c := range p.classes {
		c.cands, c.looked = nil, false
	}
	p.inventory++
	p.changed()
}

// Begin says that an attempt holds r.Alloc: one that was not started by Plan (it was running before the planner
// was made), or whose end has changed. An allocation on an unknown node counts nowhere.
func (p *Planner) Begin(r Running, now time.Time) {
	if old := p.running[r.ID]; old != nil {
		later := instantOf(r.Ends) > old.ends
		p.end(r.ID, instantOf(now))
		p.lost = p.lost || later
	}
	p.now = max(p.now, instantOf(now))
	p.begin(r, p.unlimited(instantOf(r.Ends)))
}

// unlimited is the end that is planned with for what has no run limit: a year from now. With no end at all, whoever
// needs its place could be promised nothing, and would be passed for ever (flux-sched#197).
func (p *Planner) unlimited(ends instant) instant {
	if ends == never {
		return p.now.plus(year)
	}
	return ends
}

func (p *Planner) begin(r Running, ends instant) {
	x := &running{alloc: r.Alloc, ends: ends, window: r.Window, user: r.User, limits: r.Limits, holds: make([]hold, len(r.Alloc))}
	for i := range r.Alloc {
		a := &r.Alloc[i]
		h := p.byID[hostKey{a.Node, r.Window}]
		if h == nil { // its window is gone
			h = p.byID[hostKey{a.Node, ""}]
		}
		if h == nil {
			continue
		}
		x.holds[i] = h.hold(a, p.now, ends)
		h.take(a)
		h.line.add(&x.holds[i], p.now)
		p.touch(h)
	}
	x.count(1)
	p.running[r.ID] = x
}

// take holds a, which has been found to be free or is held by a live attempt.
func (h *host) take(a *nodes.Allocation) {
	if err := h.node.Take(*a); err != nil {
		panic("internal error: impossible: " + err.Error())
	}
}

// End says that an attempt has ended: what it held is free. An unknown one changes nothing.
func (p *Planner) End(id queue.ElementID, now time.Time) { p.end(id, instantOf(now)) }

func (p *Planner) end(id queue.ElementID, now instant) {
	r := p.running[id]
	if r == nil {
		return
	}
	delete(p.running, id)
	p.release(r, now)
	p.changed()
}

// Expire says that an attempt has reached its run limit: what it held is free, though it has yet to be told as
// ended. All promises have counted on that, so none of them is looked at again for it; End may make them look.
func (p *Planner) Expire(id queue.ElementID, now time.Time) {
	if r := p.running[id]; r != nil {
		p.release(r, instantOf(now))
		p.room++
	}
}

// release frees what r holds.
func (p *Planner) release(r *running, now instant) {
	r.count(-1)
	for i := range r.holds {
		x := &r.holds[i]
		h := x.host
		if h == nil {
			continue
		}
		h.node.Release(r.alloc[i])
		h.line.remove(x, now)
		p.touch(h)
		p.free(h)
	}
	r.limits, r.alloc, r.holds = nil, nil, nil
}

// free notes that something of h is free that was not.
func (p *Planner) free(h *host) {
	if len(p.freed) >= maxFreed {
		half := maxFreed / 2
		p.freed = append(p.freed[:0], p.freed[half:]...)
		p.before += half
	}
	if h.whole != nil {
		h = h.whole
	}
	p.freed = append(append(p.freed, h), h.parts...)
}

// maxFreed bounds how many freed hosts are remembered; a class not looked at for longer looks everywhere.
const maxFreed = 1024

// changed notes that something may have become able to start, or to start earlier.
func (p *Planner) changed() {
	p.room++
	p.open = true
}

// touch notes that the state of h has changed, so that its kind has to be found again.
func (p *Planner) touch(h *host) {
	if !h.stale {
		h.stale = true
		p.stale = append(p.stale, h)
	}
}

// settle finds the kinds of all hosts whose state has changed.
func (p *Planner) settle() {
	if p.unsorted {
		slices.SortFunc(p.hosts, func(a, b *host) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.window, b.window)) })
		for i, h := range p.hosts {
			h.index = i
		}
		slices.SortFunc(p.claimed, func(a, b *host) int { return a.index - b.index })
		for _, k := range p.kinds.list {
			slices.SortFunc(k.hosts, func(a, b *host) int { return b.index - a.index })
		}
		p.unsorted = false
	}
	for _, h := range p.stale {
		p.kinds.settle(h)
	}
	p.stale = p.stale[:0]
}

// claim notes that one claim more (or less) is on h.
func (p *Planner) claim(h *host, by int) {
	was := h.claims
	h.claims += by
	switch {
	case was == 0:
		i, _ := slices.BinarySearchFunc(p.claimed, h.index, func(o *host, index int) int { return o.index - index })
		p.claimed = slices.Insert(p.claimed, i, h)
		p.kinds.leave(h)
	case h.claims == 0:
		i := slices.Index(p.claimed, h)
		p.claimed = slices.Delete(p.claimed, i, i+1)
		p.touch(h)
	}
}

func compareIDs(a, b queue.ElementID) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Index, b.Index))
}

// Claimant is whom fair share serves: a user, or where the site has accounts a user in one of them.
type Claimant struct {
	User    string
	Account string // "" where there are none
}

func (j *Pending) claimant() Claimant { return Claimant{j.User, j.Account} }

// Claimants lists those of whom something waits or has waited, in no order.
func (p *Planner) Claimants() []Claimant { return slices.Collect(maps.Keys(p.users)) }

func (p *Planner) user(who Claimant) *user {
	u := p.users[who]
	if u == nil {
		u = &user{}
		p.users[who] = u
		p.refresh(who, u)
	}
	return u
}

// refresh asks again what is known of somebody.
func (p *Planner) refresh(who Claimant, u *user) {
	if p.Share != nil {
		u.share = p.Share(who)
		u.began = u.share
	}
	if p.Predictor != nil {
		u.version = p.Predictor.version(who.User)
	}
}
