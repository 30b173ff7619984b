package backfill

import (
	"cmp"
	"slices"

	"fairslice/nodes"
)

// timeline is what of one host will be held at each time to come: by what runs (until its limit), by
// promised starts and by advance reservations. It is a step function: point i holds from at[i] until at[i+1],
// the last one for ever. Slots are kept apart from the rest: a search compares them by the thousand, and a
// host of a workload trace has nothing else.
type timeline struct {
	at    []instant
	slots []int
	rest  []load // nil for a host that has only slots
}

// load is what is held besides slots.
type load struct {
	memory      int64
	gpus        []nodes.Amount // by the GPU's place in Node.GPUs
	consumables nodes.Consumables
	users       []userLoad // of gpus, what known users hold of GPUs in nodes.ModeMPS; by GPU and user
}

// userLoad is what one user holds of a GPU that only one user's slices share.
type userLoad struct {
	gpu    int
	user   string
	amount nodes.Amount
}

// hold is what an allocation holds of one host, from..to. Who uses a host alone holds all its slots: then
// nobody else fits, and it fits only where no slot is held.
type hold struct {
	host     *host
	slots    int
	load     load
	from, to instant
}

func newTimeline(n *nodes.Node) timeline {
	l := timeline{at: []instant{0}, slots: []int{0}}
	if len(n.GPUs) > 0 || n.Memory > 0 || n.Consumables != "" {
		l.rest = []load{{gpus: make([]nodes.Amount, len(n.GPUs))}}
	}
	return l
}

// find is the point that holds at t.
func (l *timeline) find(t instant) int {
	lo, hi := 0, len(l.at) // at[lo] <= t < at[hi]
	for hi-lo > 1 {
		if mid := int(uint(lo+hi) >> 1); l.at[mid] <= t {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// trim forgets what is over.
func (l *timeline) trim(now instant) {
	k := 0
	for k+1 < len(l.at) && l.at[k+1] <= now {
		k++
	}
	if k == 0 {
		return
	}
	l.at, l.slots = l.at[k:], l.slots[k:]
	if l.rest != nil {
		l.rest = l.rest[k:]
	}
}

// split makes sure that a point begins at t, and returns it.
func (l *timeline) split(t instant) int {
	i := l.find(t)
	if l.at[i] >= t {
		return i
	}
	l.at = slices.Insert(l.at, i+1, t)
	l.slots = slices.Insert(l.slots, i+1, l.slots[i])
	if l.rest != nil {
		c := l.rest[i]
		c.gpus, c.users = slices.Clone(c.gpus), slices.Clone(c.users)
		l.rest = slices.Insert(l.rest, i+1, c)
	}
	return i + 1
}

// join removes point i if nothing changes there.
func (l *timeline) join(i int) {
	if i <= 0 || i >= len(l.at) || l.slots[i] != l.slots[i-1] || l.rest != nil && !l.rest[i].equal(&l.rest[i-1]) {
		return
	}
	l.at, l.slots = slices.Delete(l.at, i, i+1), slices.Delete(l.slots, i, i+1)
	if l.rest != nil {
		l.rest = slices.Delete(l.rest, i, i+1)
	}
}

// add holds h from then on: from its beginning, or from now if that is past, to its end.
func (l *timeline) add(h *hold, now instant) { l.change(h, max(h.from, now), h.to, 1) }

// remove gives back what of h is still to come.
func (l *timeline) remove(h *hold, now instant) { l.change(h, max(h.from, now), h.to, -1) }

func (l *timeline) change(h *hold, from, to instant, sign int) {
	if from >= to {
		return
	}
	i, j := l.split(from), 0
	if j = len(l.at); to < never {
		j = l.split(to)
	}
	if held := l.slots[i:j]; h.slots != 0 {
		for k := range held {
			held[k] += sign * h.slots
		}
	}
	if l.rest != nil {
		for k := i; k < j; k++ {
			l.rest[k].change(&h.load, sign)
		}
	}
	l.join(j)
	l.join(i)
}

func (x *load) change(y *load, sign int) {
	x.memory += int64(sign) * y.memory
	for g, a := range y.gpus {
		x.gpus[g] += nodes.Amount(sign) * a
	}
	for i := range y.users {
		x.changeUser(&y.users[i], sign)
	}
	switch {
	case y.consumables == "":
	case sign > 0:
		x.consumables = x.consumables.Plus(y.consumables)
	default:
		x.consumables = x.consumables.Minus(y.consumables)
	}
}

func (x *load) changeUser(u *userLoad, sign int) {
	i, there := slices.BinarySearchFunc(x.users, u, func(a userLoad, b *userLoad) int {
		return cmp.Or(a.gpu-b.gpu, cmp.Compare(a.user, b.user))
	})
	if !there {
		x.users = slices.Insert(x.users, i, userLoad{gpu: u.gpu, user: u.user})
	}
	if x.users[i].amount += nodes.Amount(sign) * u.amount; x.users[i].amount == 0 {
		x.users = slices.Delete(x.users, i, i+1)
	}
}

// owner is the user who holds all that is held of a GPU, "" if several do or one who is not known.
func (x *load) owner(gpu int) string {
	for i := range x.users {
		if u := &x.users[i]; u.gpu == gpu && u.amount == x.gpus[gpu] {
			return u.user
		}
	}
	return ""
}

func (x *load) equal(y *load) bool {
	return x.memory == y.memory && x.consumables == y.consumables && slices.Equal(x.gpus, y.gpus) && slices.Equal(x.users, y.users)
}

// most makes x the most that x or y holds of each thing.
func (x *load) most(y *load) {
	x.memory = max(x.memory, y.memory)
	for g, a := range y.gpus {
		x.gpus[g] = max(x.gpus[g], a)
	}
	if y.consumables != x.consumables {
		x.consumables = x.consumables.Most(y.consumables)
	}
}

// plain finds the first time from t on at which so many slots stay free for d, when at most `most` may be
// held beside them. It is the search for requests of slots alone. own, if not nil, counts as not there.
func (l *timeline) plain(t instant, d instant, most int) instant {
	i := l.find(t)
	at, held := l.at, l.slots
	for {
		end := t.plus(d)
		j := i
		for j < len(at) && held[j] <= most && (j == i || at[j] < end) {
			j++
		}
		if j == len(at) || j > i && at[j] >= end {
			return t
		}
		for j < len(at) && held[j] > most {
			j++
		}
		if j == len(at) {
			return never
		}
		i, t = j, at[j]
	}
}

// sooner is plain for a hold that is itself in the timeline, from its start `own`: is there a start before it?
// Whatever begins before own and ends after it overlaps only itself there, so own is where the search ends.
func (l *timeline) sooner(t, d, own instant, most int) instant {
	at, held := l.at, l.slots
	i := l.find(t)
	for t < own {
		end := min(own, t.plus(d))
		j := i
		for j < len(at) && held[j] <= most && (j == i || at[j] < end) {
			j++
		}
		if j == len(at) || j > i && at[j] >= end {
			return t
		}
		for j < len(at) && held[j] > most && at[j] < own {
			j++
		}
		if j == len(at) {
			return own
		}
		i, t = j, at[j]
	}
	return own
}

// holder is the user who alone holds something of a GPU from point i until to; "" if nobody does, or not one alone.
func (l *timeline) holder(gpu, i int, to instant) string {
	holder, held := "", false
	for k := i; k < len(l.at) && (k == i || l.at[k] < to); k++ {
		x := &l.rest[k]
		if x.gpus[gpu] == 0 {
			continue
		}
		if u := x.owner(gpu); !held {
			holder, held = u, true
		} else if u != holder {
			return ""
		}
	}
	return holder
}

// next is when point i ends.
func (l *timeline) next(i int) instant {
	if i+1 == len(l.at) {
		return never
	}
	return l.at[i+1]
}
