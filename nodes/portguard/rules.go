package portguard

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

const (
	// firstUser is the first user ID that is a person's (UID_MIN of login.defs). Those below are the system's, whose services
	// are there for everybody.
	firstUser = 1000
	// maxPorts bounds the listeners of one user that are guarded: more would only make the table slow for all.
	maxPorts = 4096
	// nobody is the one number that no user has: what is kept for it is for root only.
	nobody = ^uint32(0)
)

// listener is a socket that takes TCP connections.
type listener struct {
	at  netip.AddrPort // the address unspecified: all of its family
	uid uint32
	// only6 says of one at all IPv6 addresses that it takes no IPv4.
	only6 bool
}

// claim keeps a port for a user who is about to listen there.
type claim struct {
	uid   uint32
	until time.Time
}

// ports is who may connect, by where to; an unspecified address stands for all addresses of its family.
type ports map[netip.AddrPort]uint32

// guarded decides which ports are guarded for whom. Claims at whose port another user listens are not heeded.
func guarded(found []listener, users []int, claims map[uint16]claim) ports {
	out := ports{}
	put := func(at netip.AddrPort, uid uint32) {
		if before, twice := out[at]; twice && before != uid {
			uid = nobody // one of them has just gone; which one, the next look knows
		}
		out[at] = uid
	}
	foreign := map[uint16]bool{}
	for _, l := range found {
		if c, claimed := claims[l.at.Port()]; claimed && c.uid != l.uid {
			foreign[l.at.Port()] = true
		}
	}
	found = slices.Clone(found)
	slices.SortFunc(found, func(a, b listener) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.uid, b.uid)) })
	count := map[uint32]int{}
	for _, l := range found {
		if !guardable(int(l.uid)) || !slices.Contains(users, int(l.uid)) || count[l.uid] == maxPorts {
			continue
		}
		count[l.uid]++
		addr, port := l.at.Addr().Unmap(), l.at.Port()
		put(netip.AddrPortFrom(addr, port), l.uid)
		if addr == netip.IPv6Unspecified() && !l.only6 {
			put(netip.AddrPortFrom(netip.IPv4Unspecified(), port), l.uid)
		}
	}
	for port, c := range claims {
		for _, all := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
			at := netip.AddrPortFrom(all, port)
			if _, listens := out[at]; !listens && !foreign[port] {
				out[at] = c.uid
			}
		}
	}
	return out
}

// guardable says that a user's ports may be guarded at all.
func guardable(uid int) bool { return uid >= firstUser }
