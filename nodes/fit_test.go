package nodes

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const gib = int64(1) << 30

// host is a node that is up, with 8 slots, 64 GiB, two licences, and GPUs of 8 GiB worth capacity each.
func host(gpus int, capacity Amount) *Node {
	n := &Node{ID: "h", Alive: true, Slots: 8, Memory: 64 * gib, Consumables: "licence=2"}
	for i := range gpus {
		n.GPUs = append(n.GPUs, GPU{Index: i, UUID: fmt.Sprintf("GPU-%d", i), Model: "A100", Memory: 8 * gib, Capacity: capacity, Mode: ModeShim})
	}
	return n
}

func fraction(a Amount) Request { return Request{Slots: 1, GPU: GPURequest{Amount: a}} }

// show is an allocation's slices as "index:fGPU/MiB/SM%".
func show(a Allocation) string {
	var words []string
	for _, s := range a.Slices {
		words = append(words, fmt.Sprintf("%d:%s/%d/%g", s.Index, s.Amount, s.Memory>>20, float64(s.SMShare)/100))
	}
	return strings.Join(words, " ")
}

func TestWorkedExamplesOfTheDesign(t *testing.T) {
	n := host(1, 2*OneFGPU)
	a, _ := n.Carve(fraction(50))
	if len(a.Slices) != 1 || a.Slices[0].Memory != 2048<<20 || a.Slices[0].SMShare != 2500 {
		t.Errorf("0.5 of 2 fGPU on 8 GiB is %+v, want 2048 MiB and 25 %% of the SMs", a.Slices)
	}

	n = host(1, 5*OneFGPU)
	a, _ = n.Carve(fraction(OneFGPU))
	if a.Slices[0].SMShare != 2000 || a.Slices[0].Memory != 8*gib/5 {
		t.Errorf("1 of 5 fGPU is %+v, want 0.2 of the GPU", a.Slices)
	}

	n = host(1, 2*OneFGPU)
	first, m1 := n.Carve(fraction(OneFGPU))
	_, m2 := n.Carve(fraction(OneFGPU))
	_, m3 := n.Carve(fraction(OneFGPU))
	if m1 != nil || m2 != nil || m3 == nil || m3.Blocker != BlockedByGPU || m3.Need != 100 || m3.Have != 0 {
		t.Errorf("three sessions of 1 fGPU on 2: %v %v %v, want two to fit and one to wait for a GPU", m1, m2, m3)
	}
	n.Release(first)
	if m := n.Fit(fraction(OneFGPU)); m != nil {
		t.Errorf("when one session has ended the third does not fit: %+v", m)
	}
}

func TestCarve(t *testing.T) {
	half, whole := Amount(50), func(n int) Request { return Request{Slots: 1, GPU: GPURequest{Whole: n}} }
	bytes := func(b int64, count int) Request {
		return Request{Slots: 1, GPU: GPURequest{Memory: b, Count: count}}
	}
	for _, c := range []struct {
		name string
		node *Node
		reqs []Request // the last one counts
		want string    // show, or the blocker
	}{
		{"ten tenths are one", roomy(host(1, 100)), many(10, fraction(10)), "0:0.1/819/10"},
		{"and an eleventh is too much", roomy(host(1, 100)), many(11, fraction(10)), "gpu"},
		{"a fraction goes where least is left", host(2, 100), []Request{fraction(60), fraction(30)}, "0:0.3/2457/30"},
		{"and elsewhere when it does not fit there", host(2, 100), []Request{fraction(60), fraction(half)}, "1:0.5/4096/50"},
		{"a fraction never spans GPUs", host(2, 100), []Request{fraction(60), fraction(60), fraction(half)}, "gpu"},
		{"one and a half span two", host(2, 100), []Request{fraction(150)}, "0:1/8192/100 1:0.5/4096/50"},
		{"the half of one and a half goes where there is a half", host(2, 100), []Request{fraction(half), fraction(150)}, "1:1/8192/100 0:0.5/4096/50"},
		{"one and a half need a whole one", host(2, 100), []Request{fraction(half), fraction(half), fraction(10), fraction(150)}, "gpu"},
		{"two are two whole ones", host(2, 100), []Request{fraction(200)}, "0:1/8192/100 1:1/8192/100"},
		{"more than all", host(2, 100), []Request{fraction(201)}, "gpu"},
		{"one and a half of two on one GPU", host(2, 200), []Request{fraction(150)}, "0:1.5/6144/75"},
		{"a whole GPU", host(2, 100), []Request{whole(1)}, "0:1/8192/100"},
		{"a whole GPU is one that nobody uses", host(2, 100), []Request{fraction(1), whole(1)}, "1:1/8192/100"},
		{"two whole GPUs do not fit beside a fraction", host(2, 100), []Request{fraction(1), whole(2)}, "gpu"},
		{"a whole GPU is shared with nobody", host(1, 100), []Request{whole(1), fraction(1)}, "gpu"},
		{"a GPU worth nothing is never given whole", host(1, 0), []Request{whole(1)}, "gpu"},
		{"nor as a part", host(1, 0), []Request{fraction(1)}, "gpu"},
		{"nor by memory", host(1, 0), []Request{bytes(gib, 1)}, "gpu"},
		{"no GPU at all", host(0, 0), []Request{fraction(1)}, "gpu"},
		{"memory is the smallest slice that has it", host(1, 100), []Request{bytes(4*gib, 1)}, "0:0.5/4096/50"},
		{"rounded up, never down", host(1, 100), []Request{bytes(4*gib+1, 1)}, "0:0.51/4177/51"},
		{"a byte is a hundredth", host(1, 100), []Request{bytes(1, 1)}, "0:0.01/81/1"},
		{"all the memory is all of it", host(1, 100), []Request{bytes(8*gib, 1)}, "0:1/8192/100"},
		{"more memory than any GPU", host(1, 100), []Request{bytes(8*gib+1, 1)}, "gpu"},
		{"two slices by memory lie on two GPUs", host(2, 100), []Request{bytes(2*gib, 2)}, "0:0.25/2048/25 1:0.25/2048/25"},
		{"and never both on one", host(1, 100), []Request{bytes(2*gib, 2)}, "gpu"},
		{"a model by part of its name, in any case", host(1, 100), []Request{{Slots: 1, GPU: GPURequest{Amount: half, Model: "a1"}}}, "0:0.5/4096/50"},
		{"another model", host(1, 100), []Request{{Slots: 1, GPU: GPURequest{Amount: half, Model: "H100"}}}, "gpu"},
		{"whole ones with enough memory only", host(1, 100), []Request{{Slots: 1, GPU: GPURequest{Whole: 1, MinMemory: 16 * gib}}}, "gpu"},
		{"a lost GPU gives nothing", losing(host(2, 100), 0), []Request{fraction(half)}, "1:0.5/4096/50"},
		{"nor is it given whole", losing(host(1, 100), 0), []Request{whole(1)}, "gpu"},
		{"slots", host(0, 0), []Request{{Slots: 9}}, "slots"},
		{"memory", host(0, 0), []Request{{Slots: 1, Memory: 64*gib + 1}}, "memory"},
		{"all of the memory", host(0, 0), []Request{{Slots: 1, Memory: 64 * gib}}, ""},
		{"licences", host(0, 0), []Request{{Slots: 1, Consumables: "licence=2"}}, ""},
		{"more licences than are left", host(0, 0), []Request{{Slots: 1, Consumables: "licence=1"}, {Slots: 1, Consumables: "licence=2"}}, "consumable"},
		{"what the node has none of", host(0, 0), []Request{{Slots: 1, Consumables: "tape=1"}}, "consumable"},
		{"a host alone", host(0, 0), []Request{{Slots: 1, Exclusive: true}}, ""},
		{"not where somebody is", host(0, 0), []Request{{Slots: 1}, {Slots: 1, Exclusive: true}}, "exclusive"},
		{"nobody beside who is alone", host(0, 0), []Request{{Slots: 1, Exclusive: true}, {Slots: 1}}, "exclusive"},
		{"a closed host", closed(host(0, 0)), []Request{{Slots: 1}}, "state"},
		{"a host that does not answer", &Node{ID: "h", Slots: 8}, []Request{{Slots: 1}}, "state"},
	} {
		var got string
		for _, r := range c.reqs {
			a, m := c.node.Carve(r)
			if got = show(a); m != nil {
				got = string(m.Blocker)
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func many(n int, r Request) (out []Request) {
	for range n {
		out = append(out, r)
	}
	return out
}

func roomy(n *Node) *Node         { n.Slots = 1000; return n }
func closed(n *Node) *Node        { n.Closed = true; return n }
func losing(n *Node, i int) *Node { n.GPUs[i].Lost = true; return n }

func TestCouldFitIgnoresWhatIsHeldAndTheState(t *testing.T) {
	n := closed(host(1, 100))
	if err := n.Take(Allocation{Node: "h", Slots: 8, Exclusive: true}); err != nil {
		t.Fatal(err)
	}
	if m := n.CouldFit(fraction(100)); m != nil {
		t.Errorf("it could: %+v", m)
	}
	if m := n.CouldFit(fraction(101)); m == nil || m.Blocker != BlockedByGPU {
		t.Errorf("it never could, got %+v", m)
	}
	if n.UsedSlots != 8 || !n.Taken {
		t.Errorf("the question changed the node: %+v", n)
	}
}

func TestTakeRefusesAndChangesNothing(t *testing.T) {
	slice := func(uuid string, a Amount) Slice { return Slice{UUID: uuid, Amount: a} }
	for _, c := range []struct {
		name string
		a    Allocation
	}{
		{"too many slots", Allocation{Slots: 8}},
		{"too much memory", Allocation{Memory: 64 * gib}},
		{"too many licences", Allocation{Consumables: "licence=2"}},
		{"alone where somebody is", Allocation{Exclusive: true}},
		{"a GPU that is not there", Allocation{Slices: []Slice{slice("GPU-9", 1)}}},
		{"too much of a GPU", Allocation{Slices: []Slice{slice("GPU-0", 51)}}},
		{"nothing of a GPU", Allocation{Slices: []Slice{slice("GPU-0", 0)}}},
		{"less than nothing", Allocation{Slices: []Slice{slice("GPU-0", -1)}}},
		{"twice the same GPU", Allocation{Slices: []Slice{slice("GPU-1", 1), slice("GPU-1", 1)}}},
	} {
		n := host(2, 100)
		if err := n.Take(Allocation{Slots: 1, Memory: 1, Consumables: "licence=1", Slices: []Slice{slice("GPU-0", 50)}}); err != nil {
			t.Fatal(err)
		}
		before := fmt.Sprintf("%+v", n)
		if err := n.Take(c.a); err == nil {
			t.Errorf("%s was taken", c.name)
		}
		if after := fmt.Sprintf("%+v", n); after != before {
			t.Errorf("%s changed the node:\n%s\n%s", c.name, before, after)
		}
	}
}

func TestReleasingWhatIsNotHeldIsAnInternalError(t *testing.T) {
	for name, a := range map[string]Allocation{
		"slots": {Slots: 1}, "memory": {Memory: 1}, "a licence": {Consumables: "licence=1"},
		"part of a GPU": {Slices: []Slice{{UUID: "GPU-0", Amount: 2}}},
	} {
		n := host(1, 100)
		_ = n.Take(Allocation{Slices: []Slice{{UUID: "GPU-0", Amount: 1}}})
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was released and nobody held it", name)
				}
			}()
			n.Release(a)
		}()
	}
}

func TestResize(t *testing.T) {
	n := host(2, 100)
	held := Allocation{Node: "h", Slots: 4, Memory: 32 * gib, Consumables: "licence=2", Slices: []Slice{{UUID: "GPU-0", Amount: 80}, {UUID: "GPU-1", Amount: 50}}}
	small := Allocation{Node: "h", Slots: 2}
	for _, a := range []Allocation{held, small} {
		if err := n.Take(a); err != nil {
			t.Fatal(err)
		}
	}
	inv := *host(1, 60)
	inv.Slots, inv.Memory, inv.Consumables, inv.BootID, inv.MaxMemory = 3, 16*gib, "licence=1", "b2", 99
	n.Resize(inv)
	if n.Slots != 6 || n.Memory != 32*gib || n.Consumables != "licence=2" {
		t.Errorf("capacity fell below use: %+v", n)
	}
	if n.BootID != "b2" || n.MaxMemory != 99 {
		t.Errorf("the new facts are not known: %+v", n)
	}
	if g := n.gpu("GPU-0"); g.Capacity != 80 || g.Used != 80 || g.Lost {
		t.Errorf("GPU 0 is %+v", g)
	}
	if g := n.gpu("GPU-1"); g == nil || !g.Lost || g.Used != 50 {
		t.Errorf("a GPU that vanished under a slice is %+v", g)
	}
	for _, r := range []Request{{Slots: 1}, fraction(1), {Consumables: "licence=1"}, {Memory: 1}} {
		if m := n.Fit(r); m == nil {
			t.Errorf("%+v fits a node that has shrunk below its use", r)
		}
	}
	n.Release(small)
	if n.Slots != 4 || n.Fit(Request{Slots: 1}) == nil {
		t.Errorf("when 2 of 6 slots end on a node that has 3, none is free: %+v", n)
	}
	n.Release(held)
	if n.Slots != 3 || n.Memory != 16*gib || n.Consumables != "licence=1" || n.gpu("GPU-0").Capacity != 60 || n.Excess != (Excess{}) {
		t.Errorf("when all has ended the node is as it registered, got %+v", n)
	}
	n.Resize(*host(2, 100))
	if len(n.GPUs) != 2 || n.gpu("GPU-1").Lost || n.Slots != 8 {
		t.Errorf("back as it was, got %+v", n)
	}
}

func TestState(t *testing.T) {
	for want, n := range map[State]*Node{Up: {Alive: true}, Drained: {Alive: true, Closed: true}, Down: {Closed: true}} {
		if got := n.State(); got != want {
			t.Errorf("%+v is %s, want %s", n, got, want)
		}
	}
}

func TestConsumablesAreCanonical(t *testing.T) {
	c := MakeConsumables(map[string]int64{"b": 2, "a": 1, "none": 0})
	if c != "a=1,b=2" {
		t.Errorf("got %q", c)
	}
	if again := MakeConsumables(c.Map()); again != c {
		t.Errorf("%q comes back as %q", c, again)
	}
}

func TestMulDivIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		num := rapid.OneOf(rapid.Int64Range(0, math.MaxInt64), rapid.Int64Range(0, 1000), rapid.Int64Range(math.MaxInt64-1000, math.MaxInt64))
		a, b, c := num.Draw(t, "a"), num.Draw(t, "b"), num.Draw(t, "c")
		want := new(big.Int)
		if c > 0 {
			want.Div(want.Mul(big.NewInt(a), big.NewInt(b)), big.NewInt(c))
		}
		if !want.IsInt64() {
			want.SetInt64(0)
		}
		if got := mulDiv(a, b, c); got != want.Int64() {
			t.Fatalf("%d*%d/%d is %d, want %s", a, b, c, got, want)
		}
	})
}

func drawNode(t *rapid.T) *Node {
	n := &Node{ID: "h", Alive: true, Slots: rapid.IntRange(0, 16).Draw(t, "slots"), Memory: rapid.Int64Range(0, 64).Draw(t, "gib") * gib,
		Consumables: MakeConsumables(map[string]int64{"a": rapid.Int64Range(0, 3).Draw(t, "a"), "b": 1})}
	for i := range rapid.IntRange(0, 4).Draw(t, "gpus") {
		g := GPU{Index: i, UUID: fmt.Sprint("GPU-", i), Model: rapid.SampledFrom([]string{"A100", "H100"}).Draw(t, "model"),
			Memory: rapid.SampledFrom([]int64{8, 40, 141}).Draw(t, "memory") * gib, Lost: rapid.IntRange(0, 9).Draw(t, "lost") == 0,
			Capacity: Amount(rapid.SampledFrom([]int{0, 1, 7, 100, 200, 500}).Draw(t, "capacity")),
			Mode:     rapid.SampledFrom([]Mode{ModeShim, ModeCount, ModeMPS, ModeMIG}).Draw(t, "mode")}
		if g.Mode == ModeMIG {
			g.Parent, g.Fraction = "GPU-divided", rapid.SampledFrom([]int{1428, 2857, 10_000}).Draw(t, "fraction")
		}
		if rapid.IntRange(0, 9).Draw(t, "unfenced") == 0 {
			g.Unfenced = "the probe failed"
		}
		n.GPUs = append(n.GPUs, g)
	}
	return n
}

func drawRequest(t *rapid.T) Request {
	r := Request{Slots: rapid.IntRange(0, 4).Draw(t, "slots"), Memory: rapid.Int64Range(0, 8).Draw(t, "gib") * gib,
		Exclusive: rapid.IntRange(0, 9).Draw(t, "exclusive") == 0}
	if rapid.IntRange(0, 3).Draw(t, "consumes") == 0 {
		r.Consumables = MakeConsumables(map[string]int64{"a": rapid.Int64Range(0, 2).Draw(t, "a"), "b": rapid.Int64Range(0, 1).Draw(t, "b")})
	}
	switch rapid.IntRange(0, 3).Draw(t, "gpu") {
	case 1:
		r.GPU.Amount = Amount(rapid.IntRange(1, 300).Draw(t, "fgpu"))
	case 2:
		r.GPU.Whole = rapid.IntRange(1, 3).Draw(t, "whole")
	case 3:
		r.GPU.Memory, r.GPU.Count = rapid.Int64Range(1, 50*gib).Draw(t, "bytes"), rapid.IntRange(0, 3).Draw(t, "count")
	}
	if !r.GPU.Zero() && rapid.IntRange(0, 3).Draw(t, "by model") == 0 {
		r.GPU.Model = "h100"
	}
	if r.GPU.Part() {
		r.GPU.User = rapid.SampledFrom([]string{"", "ann", "bob"}).Draw(t, "user")
	}
	return r
}

// within says what of n's capacity is exceeded, and whether the slices held add up.
func within(n *Node, held []Allocation) error {
	slots, memory := 0, int64(0)
	used, mem, sms, taken := map[string]Amount{}, map[string]int64{}, map[string]int{}, map[string]int64{}
	for _, a := range held {
		slots, memory = slots+a.Slots, memory+a.Memory
		for _, s := range a.Slices {
			used[s.UUID] += s.Amount
			mem[s.UUID] += s.Memory
			sms[s.UUID] += s.SMShare
		}
		for name, q := range a.Consumables.Map() {
			taken[name] += q
		}
		if a.Exclusive && len(held) > 1 {
			return fmt.Errorf("held exclusively by one of %d", len(held))
		}
	}
	if slots != n.UsedSlots || memory != n.UsedMemory || slots > n.Slots || memory > n.Memory || len(held) != n.Holders {
		return fmt.Errorf("%d slots, %d bytes held by %d: %+v", slots, memory, len(held), n)
	}
	for name, q := range taken {
		if q > n.Consumables.Map()[name] || q != n.UsedConsumables.Map()[name] {
			return fmt.Errorf("%d of %s: %+v", q, name, n)
		}
	}
	for _, g := range n.GPUs {
		if g.Used != used[g.UUID] || g.Used > g.Capacity || mem[g.UUID] > g.Memory || sms[g.UUID] > 10_000 {
			return fmt.Errorf("%s fGPU, %d bytes, %d of the SMs: %+v", used[g.UUID], mem[g.UUID], sms[g.UUID], g)
		}
		if err := shared(&g, held); err != nil {
			return err
		}
	}
	return nil
}

// shared says by whom a GPU is shared that must not be (invariant 4).
func shared(g *GPU, held []Allocation) error {
	var users []string
	for _, a := range held {
		for _, s := range a.Slices {
			if s.UUID != g.UUID {
				continue
			}
			users = append(users, a.User)
			switch {
			case g.Mode == ModeMIG && (s.Amount != g.Capacity || s.Memory != g.Memory || s.SMShare != g.Fraction):
				return fmt.Errorf("a part of an instance: %+v of %+v", s, *g)
			case g.Mode == ModeMPS && g.Holder != a.User:
				return fmt.Errorf("%q is on the GPU of %q", a.User, g.Holder)
			case g.Lost || g.Unfenced != "":
				return fmt.Errorf("a slice of %+v", *g)
			}
		}
	}
	if len(users) > 1 && (g.Mode == ModeMIG || g.Mode == ModeMPS && users[0] == "") {
		return fmt.Errorf("%q share %+v", users, *g)
	}
	if len(users) == 0 && g.Holder != "" {
		return fmt.Errorf("nothing is held of %+v", *g)
	}
	return nil
}

// rounded says in what an allocation is not what was asked for: exactly the amount, but where a GPU is not shared.
func rounded(n *Node, r GPURequest, a Allocation) error {
	if r.Amount == 0 {
		return nil
	}
	alone := false
	for _, s := range a.Slices {
		alone = alone || s.Mode == ModeMIG || s.Mode == ModeMPS && r.User == ""
	}
	switch got := a.FGPU(); {
	case got < r.Amount, !alone && got != r.Amount:
		return fmt.Errorf("asked for %s fGPU, got %s: %+v", r.Amount, got, a)
	case got > r.Amount: // then no GPU had just that
		for i := range n.GPUs {
			if g := &n.GPUs[i]; g.Mode != ModeMIG && g.Used != 0 && g.Grant(&r, r.Amount) == r.Amount {
				return fmt.Errorf("asked for %s fGPU, got %s, and it could be had of %+v", r.Amount, got, *g)
			}
		}
	}
	return nil
}

// Invariant 1 under any sequence of Carve, Take of what was carved elsewhere, Release and Resize; Fit agrees with
// Carve; and when all is released the node is as at the beginning.
func TestNothingExceedsCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNode(t)
		first := fmt.Sprintf("%+v", n.Empty())
		var held []Allocation
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(held) > 0 && rapid.IntRange(0, 2).Draw(t, "release") == 0 {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				n.Release(held[i])
				held = append(held[:i:i], held[i+1:]...)
			} else {
				r := drawRequest(t)
				fits := n.Fit(r)
				other := n.Clone()
				a, m := n.Carve(r)
				if (fits == nil) != (m == nil) {
					t.Fatalf("Fit says %+v and Carve %+v of %+v", fits, m, r)
				}
				if m != nil {
					if n.CouldFit(r) == nil && len(held) == 0 {
						t.Fatalf("%+v does not fit an empty node that it could fit: %+v", r, m)
					}
					continue
				}
				if err := other.Admits(a); err != nil {
					t.Fatalf("what was carved is not admitted: %v", err)
				}
				if err := other.Take(a); err != nil || fmt.Sprintf("%+v", other) != fmt.Sprintf("%+v", n) {
					t.Fatalf("Take of what Carve gave: %v\n%+v\n%+v", err, other, n)
				}
				if err := rounded(other, r.GPU, a); err != nil {
					t.Fatal(err)
				}
				for _, s := range a.Slices {
					if s.Memory < r.GPU.Memory {
						t.Fatalf("asked for %d bytes, got %d", r.GPU.Memory, s.Memory)
					}
				}
				held = append(held, a)
			}
			if err := within(n, held); err != nil {
				t.Fatal(err)
			}
		}
		for _, a := range held {
			n.Release(a)
		}
		if last := fmt.Sprintf("%+v", n); last != first {
			t.Fatalf("after all releases\n%s\nat the beginning\n%s", last, first)
		}
	})
}

// A node that registers again and again, larger or smaller, never holds more than its capacity, and is what it
// registered as when all has ended.
func TestResizeKeepsWhatIsHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNode(t)
		inv := n.Clone()
		var held []Allocation
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				inv = drawNode(t)
				n.Resize(*inv)
			case 1:
				if len(held) > 0 {
					n.Release(held[0])
					held = held[1:]
				}
			default:
				if a, m := n.Carve(drawRequest(t)); m == nil {
					held = append(held, a)
				}
			}
			if n.UsedSlots > n.Slots || n.UsedMemory > n.Memory {
				t.Fatalf("more than there is: %+v", n)
			}
			for _, g := range n.GPUs {
				if g.Used > g.Capacity || g.Used < 0 {
					t.Fatalf("more than there is: %+v", g)
				}
			}
			again := n.Empty() // as after a restart
			for _, a := range held {
				if err := again.Take(a); err != nil {
					t.Fatalf("what is held cannot be counted again: %v", err)
				}
			}
		}
		for _, a := range held {
			n.Release(a)
		}
		if n.Slots != inv.Slots || n.Memory != inv.Memory || n.Consumables != inv.Consumables || n.Excess != (Excess{}) {
			t.Fatalf("empty again it is %+v, and registered as %+v", n, inv)
		}
	})
}

func BenchmarkFit(b *testing.B) {
	n := host(8, 100)
	_, _ = n.Carve(fraction(50))
	for _, c := range []struct {
		name string
		r    Request
	}{
		{"slots", Request{Slots: 1, Memory: gib}},
		{"fraction", fraction(25)},
		{"whole", Request{Slots: 1, GPU: GPURequest{Whole: 4}}},
		{"memory", Request{Slots: 1, GPU: GPURequest{Memory: gib}}},
		{"consumable", Request{Slots: 1, Consumables: "licence=1"}},
		{"refused", Request{Slots: 9}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n.Fit(c.r)
			}
		})
	}
}

func TestFitWithoutGPUDoesNotAllocate(t *testing.T) {
	n := host(2, 100)
	if got := testing.AllocsPerRun(100, func() { n.Fit(Request{Slots: 1, Memory: gib}) }); got != 0 {
		t.Errorf("%g allocations", got)
	}
}
