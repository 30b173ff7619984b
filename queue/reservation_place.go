package queue

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fairslice/nodes"
)

// maxReservationsOf bounds the reservations that bear one user's or group's name (LSF's bound).
const maxReservationsOf = 100

// Reserve works out the reservation that a request asks for: read, placed beside the other reservations
// and named, but not yet in the book. now is in the site's time zone; unit is LSF_UNIT_FOR_LIMITS. The
// text of an error is for the user.
func (b *Book) Reserve(q ReservationRequest, now time.Time, unit int64) (*Reservation, error) {
	r := &Reservation{Users: q.Users, Groups: q.Groups, Creator: q.By.User, Description: q.Description}
	if err := q.who(); err != nil {
		return nil, err
	}
	if err := q.when(r, now); err != nil {
		return nil, err
	}
	want, err := q.resources(unit)
	if err != nil {
		return nil, err
	}
	hosts, err := b.reservable(q.Hosts)
	if err != nil {
		return nil, err
	}
	others := b.overlaps(r, hosts, now)
	if r.Shares, err = place(want, hosts, others); err != nil {
		return nil, err
	}
	if r.ID, err = b.reservationID(q); err != nil {
		return nil, err
	}
	return r, r.valid()
}

// reservable finds the hosts that -m names.
func (b *Book) reservable(names string) ([]*nodes.Node, error) {
	if strings.TrimSpace(names) == "all" {
		var out []*nodes.Node
		for _, id := range slices.Sorted(maps.Keys(b.Nodes)) {
			out = append(out, b.Nodes[id])
		}
		if len(out) == 0 {
			return nil, errors.New("-m all: no host has ever joined")
		}
		return out, nil
	}
	wishes, err := ParseHosts(names)
	if err != nil {
		return nil, err
	}
	var out []*nodes.Node
	for _, w := range wishes {
		n := b.Nodes[nodes.ID(w.Name)]
		switch {
		case w.First || w.Preference > 0 || w.Others:
			return nil, fmt.Errorf("%s: Bad host specification: a reservation takes plain host names, in the order of preference", quoteInput(w.String()))
		case n == nil:
			return nil, fmt.Errorf("%s: Bad host name, host group name or cluster name", quoteInput(w.Name))
		}
		out = append(out, n)
	}
	return out, nil
}

// place takes what is wanted of the hosts in order: slots as many as each has, or whole hosts. A host
// that is down or closed now can be reserved: the reservation may be for when it is back.
func place(want sharesWanted, hosts []*nodes.Node, others []overlap) ([]nodes.Allocation, error) {
	all := want.count == 0
	if all {
		want.count = len(hosts)
	}
	if n := len(hosts); !want.gpu.Zero() && want.count < n {
		return nil, fmt.Errorf("-n %d: with -gpu each of the %d hosts gives its GPUs and at least one slot", want.count, n)
	}
	var out []nodes.Allocation
	left := want.count
	for i, host := range hosts {
		if left == 0 {
			break
		}
		free := freeBeside(host, others)
		most := left
		if !want.gpu.Zero() {
			most = left - (len(hosts) - 1 - i) // the hosts after it want one slot each
		}
		var share nodes.Allocation
		var misfit *nodes.Misfit
		if want.whole {
			share, misfit = free.CarveAll()
		} else {
			share, misfit = free.Carve(slotShare(free, most, want.gpu))
		}
		switch {
		case misfit == nil && share.Slots > 0:
			out = append(out, share)
			if left -= share.Slots; want.whole {
				left += share.Slots - 1
			}
		case !want.gpu.Zero() || want.whole && all:
			return nil, fmt.Errorf("%s: %s%s", host.ID, cannotShare(misfit), openMeanwhile(host.ID, others))
		}
	}
	if left > 0 {
		what := "slots"
		if want.whole {
			what = "whole hosts"
		}
		return nil, fmt.Errorf("Not enough processors to be reserved: %d %s wanted, %d free%s", want.count, what, want.count-left, openMeanwhile("", others))
	}
	return out, nil
}

// slotShare asks for the free slots of n, at most so many, with their part of its memory: as a slice
// brings its part of a GPU's.
func slotShare(n *nodes.Node, most int, gpu nodes.GPURequest) nodes.Request {
	slots := min(n.Slots-n.UsedSlots, most)
	if slots <= 0 {
		return nodes.Request{}
	}
	return nodes.Request{Slots: slots, Memory: n.Memory / int64(n.Slots) * int64(slots), GPU: gpu}
}

func cannotShare(m *nodes.Misfit) string {
	switch {
	case m == nil || m.Blocker == nodes.BlockedBySlots || m.Blocker == nodes.BlockedByExclusive:
		return "Not enough processors to be reserved"
	case m.What == "fgpu":
		return fmt.Sprintf("Not enough GPU to be reserved: %s fGPU wanted, the freest GPU has %s", nodes.Amount(m.Need), nodes.Amount(m.Have))
	case m.Blocker == nodes.BlockedByGPU:
		return fmt.Sprintf("Not enough GPU to be reserved: %d wanted, %d free", m.Need, m.Have)
	}
	return fmt.Sprintf("Not enough %s to be reserved: %d wanted, %d free", m.Blocker, m.Need, m.Have)
}

// openMeanwhile names the reservations that hold something meanwhile, on one host or on any.
func openMeanwhile(host nodes.ID, others []overlap) string {
	var ids []string
	for _, o := range others {
		if host == "" || o.with.Share(host) != nil {
			ids = append(ids, o.with.ID)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return "; open at the same time: " + strings.Join(ids, " ")
}

// reservationID is the name asked for, or the first user's (or group's) with the lowest number that no
// reservation has and no unfinished job waits for: such a job must not get another one's resources.
func (b *Book) reservationID(q ReservationRequest) (string, error) {
	if q.Name != "" {
		if b.Reservations[q.Name] != nil {
			return "", fmt.Errorf("-N %s: the reservation name is in use", quoteInput(q.Name))
		}
		return q.Name, nil
	}
	owner := "system"
	switch {
	case len(q.Users) > 0:
		owner = q.Users[0]
	case len(q.Groups) > 0:
		owner = q.Groups[0].Name
	}
	named := map[string]bool{}
	b.Each(func(j *Job) bool {
		if j.Spec.Reservation != "" && !j.Finished() {
			named[j.Spec.Reservation] = true
		}
		return true
	})
	has := 0
	for n := 0; has < maxReservationsOf; n++ {
		id := fmt.Sprintf("%s#%d", owner, n)
		switch {
		case b.Reservations[id] != nil:
			has++
		case !named[id]:
			return id, nil
		}
	}
	return "", fmt.Errorf("%s has %d reservations: No more reservation IDs can be used now", owner, has)
}
