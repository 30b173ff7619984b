package portguard

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func at(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }

func TestGuarded(t *testing.T) {
	both := []int{2001, 2002}
	for _, row := range []struct {
		what   string
		found  []listener
		users  []int
		claims map[uint16]claim
		want   ports
	}{
		{"nothing", nil, both, nil, ports{}},
		{"one address", []listener{{at: at("127.0.0.1:80"), uid: 2001}}, both, nil, ports{at("127.0.0.1:80"): 2001}},
		{"no jobs", []listener{{at: at("127.0.0.1:80"), uid: 2003}}, both, nil, ports{}},
		{"a system user with jobs", []listener{{at: at("127.0.0.1:80"), uid: 999}}, []int{999}, nil, ports{}},
		{"root with jobs", []listener{{at: at("127.0.0.1:80"), uid: 0}}, []int{0}, nil, ports{}},
		{"all addresses", []listener{{at: at("[::]:80"), uid: 2001}}, both, nil, ports{at("[::]:80"): 2001, at("0.0.0.0:80"): 2001}},
		{"all of IPv6", []listener{{at: at("[::]:80"), uid: 2001, only6: true}}, both, nil, ports{at("[::]:80"): 2001}},
		{"IPv4 through an IPv6 socket", []listener{{at: at("[::ffff:127.0.0.1]:80"), uid: 2001}}, both, nil, ports{at("127.0.0.1:80"): 2001}},
		{"one port, two addresses", []listener{{at: at("127.0.0.1:80"), uid: 2001}, {at: at("127.0.0.2:80"), uid: 2002}}, both, nil,
			ports{at("127.0.0.1:80"): 2001, at("127.0.0.2:80"): 2002}},
		{"several processes at one port", []listener{{at: at("127.0.0.1:80"), uid: 2001}, {at: at("127.0.0.1:80"), uid: 2001}}, both, nil, ports{at("127.0.0.1:80"): 2001}},
		{"one after the other, seen at once", []listener{{at: at("127.0.0.1:80"), uid: 2001}, {at: at("127.0.0.1:80"), uid: 2002}, {at: at("127.0.0.1:80"), uid: 2001}}, both, nil,
			ports{at("127.0.0.1:80"): nobody}},
		{"a claim", nil, nil, map[uint16]claim{80: {uid: 2001}}, ports{at("[::]:80"): 2001, at("0.0.0.0:80"): 2001}},
		{"a claim that its user uses", []listener{{at: at("127.0.0.1:80"), uid: 2001}}, both, map[uint16]claim{80: {uid: 2001}},
			ports{at("[::]:80"): 2001, at("0.0.0.0:80"): 2001, at("127.0.0.1:80"): 2001}},
		{"a claim at a port of another with jobs", []listener{{at: at("0.0.0.0:80"), uid: 2002}}, both, map[uint16]claim{80: {uid: 2001}}, ports{at("0.0.0.0:80"): 2002}},
		{"a claim at a port of the system", []listener{{at: at("127.0.0.1:80"), uid: 0}}, both, map[uint16]claim{80: {uid: 2001}}, ports{}},
	} {
		if got := guarded(row.found, row.users, row.claims); !maps.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", row.what, got, row.want)
		}
	}
}

// Whoever may connect listens there, or has a claim; and who listens, and may be guarded, is.
func TestGuardedHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uids := rapid.SampledFrom([]uint32{0, 999, 1000, 2001, 2002})
		addrs := rapid.SampledFrom([]string{"127.0.0.1", "127.0.0.2", "0.0.0.0", "::", "::1", "::ffff:127.0.0.1"})
		found := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) listener {
			return listener{at: netip.AddrPortFrom(netip.MustParseAddr(addrs.Draw(t, "address")), rapid.Uint16Range(1, 3).Draw(t, "port")), uid: uids.Draw(t, "uid"), only6: rapid.Bool().Draw(t, "only6")}
		}), 0, 6).Draw(t, "found")
		claims := rapid.MapOfN(rapid.Uint16Range(1, 3), rapid.Custom(func(t *rapid.T) claim {
			return claim{uid: 1000 + uids.Draw(t, "uid"), until: time.Time{}}
		}), 0, 2).Draw(t, "claims")
		users := []int{0, 999, 1000, 2001}
		got := guarded(found, users, claims)
		for where, uid := range got {
			ok := uid == nobody || claims[where.Port()].uid == uid
			for _, l := range found {
				ok = ok || l.uid == uid && l.at.Port() == where.Port()
			}
			if !ok {
				t.Errorf("%d may connect to %v", uid, where)
			}
		}
		for _, l := range found {
			uid, is := got[netip.AddrPortFrom(l.at.Addr().Unmap(), l.at.Port())]
			if (l.uid == 1000 || l.uid == 2001) && (!is || uid != l.uid && uid != nobody) {
				t.Errorf("%v is for %d", l, uid)
			}
		}
	})
}

// message is a struct inet_diag_msg as a kernel makes it.
func message(family byte, uid uint32, port uint16, addr []byte, only6 byte) []byte {
	b := make([]byte, diagMessage, diagMessage+8)
	b[0], b[1] = family, tcpListen
	binary.BigEndian.PutUint16(b[4:], port)
	copy(b[8:24], addr)
	binary.NativeEndian.PutUint32(b[64:], uid)
	return append(b, 5, 0, diagOnly6, 0, only6, 0, 0, 0)
}

func TestParseListener(t *testing.T) {
	v6 := netip.MustParseAddr("::").AsSlice()
	for _, row := range []struct {
		what    string
		message []byte
		want    listener
		bad     string
	}{
		{"IPv4", message(unix.AF_INET, 31001, 8080, []byte{127, 0, 0, 1}, 0), listener{at: at("127.0.0.1:8080"), uid: 31001}, ""},
		{"IPv6", message(unix.AF_INET6, 0, 1, v6, 1), listener{at: at("[::]:1"), only6: true}, ""},
		{"short", make([]byte, diagMessage-1), listener{}, "want at least 72"},
		{"a family", message(unix.AF_UNIX, 0, 1, v6, 1), listener{}, "address family 1"},
		{"a connection", func() []byte { b := message(unix.AF_INET, 0, 1, v6, 1); b[1] = 1; return b }(), listener{}, "state 1"},
		{"an attribute without an end", append(message(unix.AF_INET, 0, 1, v6, 1), 9, 0, 1, 0), listener{}, "attribute of 9 bytes of 4"},
		{"half an attribute", append(message(unix.AF_INET, 0, 1, v6, 1), 9), listener{}, "half an attribute"},
	} {
		got, err := parseListener(row.message)
		if row.bad == "" && (err != nil || got != row.want) || row.bad != "" && (err == nil || !strings.Contains(err.Error(), row.bad)) {
			t.Errorf("%s: %v, %v; want %v %q", row.what, got, err, row.want, row.bad)
		}
	}
}

func FuzzParseListener(f *testing.F) {
	f.Add(message(unix.AF_INET, 31001, 8080, []byte{127, 0, 0, 1}, 0))
	f.Add(message(unix.AF_INET6, 31001, 8080, netip.MustParseAddr("::1").AsSlice(), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, err := parseListener(b); err == nil && (!l.at.Addr().IsValid() || b[1] != tcpListen) {
			t.Errorf("%s gives %v", hex.EncodeToString(b), l)
		}
	})
}
