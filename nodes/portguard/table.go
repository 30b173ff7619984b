package portguard

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	loopback = 1       // the index of lo, in every network namespace
	register = 8       // NFT_REG32_00: of 4 bytes; what is longer takes the next ones too
	perMsg   = 512     // elements in one message: its attribute has at most 64 KiB
	sendRoom = 8 << 20 // bytes of one transaction; maxPorts of some hundred users
)

// family is what differs between IPv4 and IPv6.
type family struct {
	suffix      string // of its sets
	proto       byte
	all         netip.Addr // every address
	key         nftables.SetDatatype
	daddr, size uint32 // the destination in the network header
}

var families = []family{
	{"4", unix.NFPROTO_IPV4, netip.IPv4Unspecified(), nftables.TypeIPAddr, 16, 4},
	{"6", unix.NFPROTO_IPV6, netip.IPv6Unspecified(), nftables.TypeIP6Addr, 24, 16},
}

// replace makes the kernel guard exactly these ports, in one transaction.
func replace(table string, guarded ports) error {
	return transact(func(c *nftables.Conn) error {
		t := &nftables.Table{Name: table, Family: nftables.TableFamilyINet}
		c.AddTable(t) // to be there for DelTable in any case
		c.DelTable(t)
		if len(guarded) == 0 {
			return nil
		}
		c.AddTable(t)
		return fill(c, t, guarded)
	})
}

// possible finds out whether this kernel takes such tables: it makes one and removes it in the same transaction, so that none is
// ever there.
func possible(table string) error {
	return transact(func(c *nftables.Conn) error {
		t := &nftables.Table{Name: table + "-try", Family: nftables.TableFamilyINet}
		c.AddTable(t)
		some := ports{}
		for _, f := range families {
			some[netip.AddrPortFrom(f.all, 1)] = nobody
			some[netip.AddrPortFrom(f.all.Next(), 1)] = nobody
		}
		err := fill(c, t, some)
		c.DelTable(t)
		return err
	})
}

// there says whether the table is in the kernel.
func there(table string) (bool, error) {
	c, err := nftables.New()
	if err != nil {
		return false, err
	}
	_, err = c.ListTableOfFamily(table, nftables.TableFamilyINet)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
}

func transact(fill func(*nftables.Conn) error) error {
	c, err := nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error { return c.SetWriteBuffer(sendRoom) }))
	if err == nil {
		err = fill(c)
	}
	if err == nil {
		err = c.Flush()
	}
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	return nil
}

// fill puts the chain, the sets and the rules into a new table.
func fill(c *nftables.Conn, t *nftables.Table, guarded ports) error {
	accept := nftables.ChainPolicyAccept
	chain := c.AddChain(&nftables.Chain{Name: "output", Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput,
		Priority: nftables.ChainPriorityFilter, Policy: &accept})
	rule := func(parts ...[]expr.Any) {
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: slices.Concat(parts...)})
	}
	let, reset := verdict(expr.VerdictAccept), []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}
	rule(meta(expr.MetaKeyOIF, register), differs(binaryutil.NativeEndian.PutUint32(loopback)), let)
	rule(meta(expr.MetaKeyL4PROTO, register), differs([]byte{unix.IPPROTO_TCP}), let)
	rule(flags(), differs([]byte{syn}), let)
	rule(meta(expr.MetaKeySKUID, register), equals(binaryutil.NativeEndian.PutUint32(0)), let)
	for _, f := range families {
		of := slices.Concat(meta(expr.MetaKeyNFPROTO, register), equals([]byte{f.proto}))
		words := f.size / 4
		toAddr := slices.Concat(load(expr.PayloadBaseNetworkHeader, f.daddr, f.size, register), toPort(register+words))
		for _, s := range []struct {
			name  string
			key   []nftables.SetDatatype
			to    []expr.Any
			after uint32 // the register behind the key
			exact bool
		}{
			{"at" + f.suffix, []nftables.SetDatatype{f.key, nftables.TypeInetService}, toAddr, register + words + 1, true},
			{"any" + f.suffix, []nftables.SetDatatype{nftables.TypeInetService}, toPort(register), register + 1, false},
		} {
			where, who := elements(guarded, f, s.exact)
			all, err := addSet(c, t, s.name, s.key, where)
			if err != nil {
				return err
			}
			users, err := addSet(c, t, s.name+"_users", append(s.key, nftables.TypeUID), who)
			if err != nil {
				return err
			}
			rule(of, s.to, meta(expr.MetaKeySKUID, s.after), in(users), let)
			rule(of, s.to, in(all), reset)
		}
	}
	return nil
}

// elements are the ports of a family, at single addresses or at all of them, and the same with who may connect.
func elements(guarded ports, f family, exact bool) (where, who []nftables.SetElement) {
	for at, uid := range guarded {
		if at.Addr().Is4() != f.all.Is4() || (at.Addr() != f.all) != exact {
			continue
		}
		var key []byte
		if exact {
			key = at.Addr().AsSlice()
		}
		key = append(key, binaryutil.BigEndian.PutUint16(at.Port())...)
		padded := append(slices.Clone(key), 0, 0) // in keys of several parts each has whole registers
		if exact {
			key = padded
		}
		where = append(where, nftables.SetElement{Key: key})
		who = append(who, nftables.SetElement{Key: append(slices.Clone(padded), binaryutil.NativeEndian.PutUint32(uid)...)})
	}
	return where, who
}

// addSet makes a set of keys that consist of the given parts.
func addSet(c *nftables.Conn, t *nftables.Table, name string, key []nftables.SetDatatype, list []nftables.SetElement) (*nftables.Set, error) {
	kind, err := nftables.ConcatSetType(key...)
	if err != nil {
		return nil, err
	}
	if len(key) == 1 {
		kind = key[0]
	}
	// Without the flag for concatenations, which says nothing to the kernel here and is unknown to those before 5.6.
	s := &nftables.Set{Table: t, Name: name, KeyType: kind}
	if err := c.AddSet(s, nil); err != nil {
		return nil, err
	}
	for part := range slices.Chunk(list, perMsg) {
		if err := c.SetAddElements(s, part); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// What rules are made of. syn is what the first segment of a connection has of the flags SYN and ACK.
const syn, ack = 0x02, 0x10

func meta(key expr.MetaKey, into uint32) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: into}}
}

func load(base expr.PayloadBase, offset, size, into uint32) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: into, Base: base, Offset: offset, Len: size}}
}

func toPort(into uint32) []expr.Any { return load(expr.PayloadBaseTransportHeader, 2, 2, into) }

func flags() []expr.Any {
	return append(load(expr.PayloadBaseTransportHeader, 13, 1, register),
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 1, Mask: []byte{syn | ack}, Xor: []byte{0}})
}

func equals(value []byte) []expr.Any {
	return []expr.Any{&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: value}}
}

func differs(value []byte) []expr.Any {
	return []expr.Any{&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: value}}
}

func in(s *nftables.Set) []expr.Any {
	return []expr.Any{&expr.Lookup{SourceRegister: register, SetName: s.Name, SetID: s.ID}}
}

func verdict(kind expr.VerdictKind) []expr.Any { return []expr.Any{&expr.Verdict{Kind: kind}} }
