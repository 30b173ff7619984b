package backfill

import (
	"slices"

	"fairslice/queue"
)

// Add says that these elements wait, instead of those of that job that waited before. What of them has a promise keeps it.
func (p *Planner) Add(j Pending) {
	p.recount(&j)
	c := p.classOf(j.Shape)
	c.groups++ // its last group may be gone for a moment
	j.Shape = c.shape
	for _, pr := range slices.Clone(p.promises[j.Job]) {
		if i := slices.Index(j.Indices, pr.id.Index); i >= 0 && p.keeps(pr, c, &j) {
			j.Indices = slices.Delete(slices.Clone(j.Indices), i, i+1)
		} else {
			p.forget(pr)
		}
	}
	if old := p.items[j.Job]; old != nil {
		p.drop(old)
	}
	if len(j.Indices) > 0 {
		p.put(&item{pending: j})
	}
	if c.groups--; c.groups == 0 {
		delete(p.classes, *c.shape)
	}
}

// keeps says whether a promise still holds for j as it is now, and takes over its place in the order.
func (p *Planner) keeps(pr *promise, c *class, j *Pending) bool {
	g := pr.group
	if g.class != c || g.user != j.User || g.account != j.Account || !slices.Equal(g.limits, j.Limits) {
		return false
	}
	p.unlist(g)
	one := &g.head().pending
	one.Position, one.Moved, one.Submitted = j.Position, j.Moved, j.Submitted
	p.list(g)
	return true
}

// recount counts the work of j instead of what waited of it before.
func (p *Planner) recount(j *Pending) {
	n, s, met := p.leftOf(j.Job)
	if n > 0 {
		p.waiting -= work(s, n)
	}
	switch {
	case met > 0:
		j.Met = met
	case j.Met <= 0:
		j.Met = p.meets()
	}
	p.waiting += work(j.Shape, len(j.Indices))
}

// Remove says that nothing of this job waits any more.
func (p *Planner) Remove(id queue.JobID) {
	if n, s, _ := p.leftOf(id); n > 0 {
		p.waiting -= work(s, n)
	}
	for _, pr := range slices.Clone(p.promises[id]) {
		p.forget(pr)
	}
	if i := p.items[id]; i != nil {
		p.drop(i)
	}
}

// put adds an item to its group.
func (p *Planner) put(i *item) {
	j := &i.pending
	c := p.classOf(j.Shape)
	key := keyOf(c, j)
	g := p.groups[key]
	if g == nil {
		g = &group{class: c, user: j.User, account: j.Account, name: key, limits: j.Limits}
		p.groups[key] = g
		c.groups++
	}
	p.items[j.Job], i.group = i, g
	if len(g.items) == 0 {
		g.items = append(g.items, i)
		p.list(g)
		return
	}
	if compareItems(g.items[len(g.items)-1], i) < 0 {
		g.items = append(g.items, i)
		return
	}
	p.unlist(g)
	at, _ := slices.BinarySearchFunc(g.items, i, compareItems)
	g.items = slices.Insert(g.items, at, i)
	p.list(g)
}

// drop takes an item out of its group.
func (p *Planner) drop(i *item) {
	g := i.group
	delete(p.items, i.pending.Job)
	at, _ := slices.BinarySearchFunc(g.items, i, compareItems)
	if at > 0 {
		g.items = slices.Delete(g.items, at, at+1)
		return
	}
	p.unlist(g)
	g.items = slices.Delete(g.items, 0, 1)
	p.relist(g)
}

// pop takes the head element off a group; the group must be off the list.
func (p *Planner) pop(g *group) {
	i := g.head()
	if i.first++; i.first < len(i.pending.Indices) {
		return // the other elements of its job come before those of later jobs
	}
	g.items[0] = nil
	g.items = g.items[1:]
	if g.promise == nil {
		delete(p.items, i.pending.Job)
	}
}

func (p *Planner) list(g *group) {
	p.sequence.insert(g)
	if p.second != nil {
		p.second.insert(g)
	}
}

func (p *Planner) unlist(g *group) {
	p.sequence.remove(g)
	if p.second != nil {
		p.second.remove(g)
	}
}

// relist lists a group that was taken off the list, or forgets it when nothing is left in it.
func (p *Planner) relist(g *group) {
	if len(g.items) > 0 {
		p.list(g)
		return
	}
	if g.promise == nil {
		delete(p.groups, g.name)
	}
	if g.class.groups--; g.class.groups == 0 {
		delete(p.classes, *g.class.shape)
	}
}
