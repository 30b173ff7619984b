package nodes

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// in puts these GPUs of n, or all, into a mode.
func in(mode Mode, n *Node, which ...int) *Node {
	for i := range n.GPUs {
		if len(which) == 0 || slices.Contains(which, i) {
			n.GPUs[i].Mode = mode
		}
	}
	return n
}

// instances adds instances of a GPU of 80 GiB and 4 fGPU to n: each with so many sevenths of its multiprocessors and
// eighths of its memory.
func instances(n *Node, sizes ...[2]int) *Node {
	for _, s := range sizes {
		i := len(n.GPUs)
		g := GPU{Index: 0, UUID: fmt.Sprint("MIG-", i), Model: "H100 MIG", Memory: 10 * gib * int64(s[1]), Mode: ModeMIG, Parent: "GPU-h", Fraction: 10_000 * s[0] / 7}
		g.Index, g.Capacity = i, g.Worth(400)
		n.GPUs = append(n.GPUs, g)
	}
	return n
}

func of(user string, r Request) Request {
	r.GPU.User = user
	return r
}

func TestWorth(t *testing.T) {
	for _, c := range []struct {
		g     GPU
		whole Amount
		want  Amount
	}{
		{GPU{Mode: ModeShim}, 400, 400},
		{GPU{Mode: ModeShim, Fraction: 5000}, 400, 400},
		{GPU{Mode: ModeMIG, Fraction: 1428}, 400, 57}, // 57.12
		{GPU{Mode: ModeMIG, Fraction: 10_000}, 400, 400},
		{GPU{Mode: ModeMIG, Fraction: 1428}, 1, 1},
		{GPU{Mode: ModeMIG, Fraction: 1428}, 0, 0}, // a site that counts the GPU as nothing
		{GPU{Mode: ModeMIG, Fraction: 20_000}, 400, 400},
		{GPU{Mode: ModeMIG, Fraction: -1}, 400, 1},
	} {
		if got := c.g.Worth(c.whole); got != c.want {
			t.Errorf("%+v of %s is worth %s, want %s", c.g, c.whole, got, c.want)
		}
	}
}

func TestCarveByMode(t *testing.T) {
	whole := func(n int) Request { return Request{Slots: 1, GPU: GPURequest{Whole: n}} }
	bytes := func(b int64, count int) Request {
		return Request{Slots: 1, GPU: GPURequest{Memory: b, Count: count}}
	}
	small, large := [2]int{1, 1}, [2]int{3, 4} // 0.57 fGPU and 10 GiB, 1.71 fGPU and 40 GiB
	for _, c := range []struct {
		name string
		node *Node
		reqs []Request // the last one counts
		want string    // show, or what is in the way
	}{
		{"a fraction is rounded up to an instance", instances(host(0, 0), small), []Request{fraction(30)}, "0:0.57/10240/14.28"},
		{"exactly an instance", instances(host(0, 0), small), []Request{fraction(57)}, "0:0.57/10240/14.28"},
		{"more than an instance", instances(host(0, 0), small), []Request{fraction(58)}, "fgpu"},
		{"the smallest that suffices", instances(host(0, 0), large, small), []Request{fraction(30)}, "1:0.57/10240/14.28"},
		{"the next one when that is taken", instances(host(0, 0), large, small), []Request{fraction(30), fraction(30)}, "0:1.71/40960/42.85"},
		{"an instance is never shared", instances(host(0, 0), small), []Request{fraction(10), fraction(10)}, "fgpu"},
		{"never given as a whole GPU", instances(host(0, 0), small), []Request{whole(1)}, "gpus"},
		{"nor as a part of more than one", instances(host(1, 100), large), []Request{fraction(200)}, "fgpu"},
		{"nor as the rest of it", instances(host(1, 100), small), []Request{fraction(150)}, "fgpu"},
		{"not though it would suit the rest best", instances(host(2, 100), small), []Request{fraction(157)}, "0:1/8192/100 1:0.57/4669/57"},
		{"by memory: the smallest that has it", instances(host(0, 0), large, small), []Request{bytes(9*gib, 1)}, "1:0.57/10240/14.28"},
		{"by memory: a larger one", instances(host(0, 0), small, large), []Request{bytes(11*gib, 1)}, "1:1.71/40960/42.85"},
		{"by memory: of two with as many multiprocessors the smaller", instances(host(0, 0), [2]int{1, 2}, small), []Request{bytes(6*gib, 1)}, "1:0.57/10240/14.28"},
		{"by memory: too much", instances(host(0, 0), large), []Request{bytes(41*gib, 1)}, "slices"},
		{"several slices never are instances", instances(host(0, 0), small, small), []Request{bytes(gib, 2)}, "slices"},
		{"what a GPU has to the hundredth goes before rounding up", instances(host(1, 100), small), []Request{fraction(30)}, "0:0.3/2457/30"},
		{"and an instance of just that size before opening a GPU", instances(host(1, 100), small), []Request{fraction(57)}, "1:0.57/10240/14.28"},
		{"rounding up before waiting", instances(host(1, 100), small), []Request{fraction(80), fraction(30)}, "1:0.57/10240/14.28"},
		{"an unfenced instance", unfenced(instances(host(0, 0), small), 0), []Request{fraction(30)}, "fgpu"},

		{"one user's slices share a GPU (MPS)", in(ModeMPS, host(1, 100)), []Request{of("ann", fraction(30)), of("ann", fraction(70))}, "0:0.7/5734/70"},
		{"another's do not", in(ModeMPS, host(1, 100)), []Request{of("ann", fraction(30)), of("bob", fraction(30))}, "mps"},
		{"not though they would fit by memory", in(ModeMPS, host(1, 100)), []Request{of("ann", fraction(30)), of("bob", bytes(gib, 1))}, "mps"},
		{"too much for the user himself", in(ModeMPS, host(1, 100)), []Request{of("ann", fraction(30)), of("ann", fraction(80))}, "fgpu"},
		{"too much for another too", in(ModeMPS, host(1, 100)), []Request{of("ann", fraction(30)), of("bob", fraction(80))}, "fgpu"},
		{"another goes to the next GPU", in(ModeMPS, host(2, 100)), []Request{of("ann", fraction(30)), of("bob", fraction(30))}, "1:0.3/2457/30"},
		{"who has no name gets all of one", in(ModeMPS, host(1, 100)), []Request{fraction(30)}, "0:1/8192/100"},
		{"or a smaller instance", in(ModeMPS, instances(host(1, 100), small), 0), []Request{fraction(30)}, "1:0.57/10240/14.28"},
		{"and none that is in use", in(ModeMPS, host(1, 100)), []Request{of("ann", fraction(30)), fraction(30)}, "fgpu"},
		{"a whole one", in(ModeMPS, host(2, 100)), []Request{of("ann", fraction(30)), whole(1)}, "1:1/8192/100"},
		{"which nobody then shares", in(ModeMPS, host(1, 100)), []Request{whole(1), of("ann", fraction(30))}, "fgpu"},
		{"one and a half, the half beside one's own", in(ModeMPS, host(2, 100)), []Request{of("ann", fraction(30)), of("ann", fraction(150))}, "1:1/8192/100 0:0.5/4096/50"},
		{"but not beside another's", in(ModeMPS, host(2, 100)), []Request{of("ann", fraction(30)), of("bob", fraction(150))}, "fgpu"},
		{"GPUs in another mode are for all", in(ModeMPS, host(2, 100), 0), []Request{of("ann", fraction(30)), of("ann", fraction(60)), of("bob", fraction(40))}, "1:0.4/3276/40"},
		{"an unfenced GPU gives nothing", unfenced(host(2, 100), 0), []Request{fraction(50)}, "1:0.5/4096/50"},
		{"nor is it given whole", unfenced(host(1, 100), 0), []Request{whole(1)}, "gpus"},
	} {
		var got string
		for _, r := range c.reqs {
			a, m := c.node.Carve(r)
			if got = show(a); m != nil {
				got = m.What
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func unfenced(n *Node, i int) *Node { n.GPUs[i].Unfenced = "the probe failed"; return n }

func TestHolderComesAndGoes(t *testing.T) {
	n := in(ModeMPS, host(1, 100))
	a, _ := n.Carve(of("ann", fraction(30)))
	b, _ := n.Carve(of("ann", fraction(30)))
	if g := n.GPUs[0]; g.Holder != "ann" || a.User != "ann" {
		t.Fatalf("the holder is %q by %+v", g.Holder, a)
	}
	again := in(ModeMPS, host(1, 100)) // as after a restart: from what the attempts say
	for _, x := range []Allocation{a, b} {
		if err := again.Take(x); err != nil {
			t.Fatal(err)
		}
	}
	if again.GPUs[0].Holder != "ann" || again.Fit(of("bob", fraction(10))) == nil || again.Fit(of("ann", fraction(10))) != nil {
		t.Errorf("counted again: %+v", again.GPUs[0])
	}
	if err := n.Take(Allocation{User: "bob", Slices: []Slice{{UUID: "GPU-0", Amount: 10, Mode: ModeMPS}}}); err == nil {
		t.Error("a stale plan puts bob beside ann")
	}
	n.Release(a)
	if n.GPUs[0].Holder != "ann" {
		t.Errorf("with one of two slices: %+v", n.GPUs[0])
	}
	n.Release(b)
	if n.GPUs[0].Holder != "" || n.Fit(of("bob", fraction(100))) != nil {
		t.Errorf("with none: %+v", n.GPUs[0])
	}
	if c, _ := in(ModeShim, host(1, 100)).Carve(of("ann", fraction(30))); c.User != "" {
		t.Errorf("the user is noted where it does not matter: %+v", c)
	}
}

// What runs goes on when a node comes back with another mode; the rules of the new one hold for what starts.
func TestModeChangesUnderSlices(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to Mode
		open     bool // others' slices fit before the old one has ended
	}{
		{"to one user's", ModeShim, ModeMPS, false},
		{"to an instance", ModeShim, ModeMIG, false},
		{"to everybody's", ModeMPS, ModeShim, true},
	} {
		n := in(c.from, host(1, 100))
		a, _ := n.Carve(of("ann", fraction(30)))
		n.Resize(*in(c.to, host(1, 100)))
		for _, x := range []*Node{n, restarted(t, n, a)} {
			if fits := x.Fit(of("bob", fraction(30))) == nil; fits != c.open {
				t.Errorf("%s: bob's fits is %t, on %+v", c.name, fits, x.GPUs[0])
			}
			if fits := x.Fit(of("ann", fraction(30))) == nil; fits != c.open {
				t.Errorf("%s: ann's fits is %t, on %+v", c.name, fits, x.GPUs[0])
			}
			if fits := x.Fit(fraction(30)) == nil; fits != c.open {
				t.Errorf("%s: without a user it is %t, on %+v", c.name, fits, x.GPUs[0])
			}
			if x.GPUs[0].Holder != "" {
				t.Errorf("%s: the holder is %q", c.name, x.GPUs[0].Holder)
			}
			x.Release(a)
			if m := x.Fit(of("bob", fraction(30))); m != nil {
				t.Errorf("%s: with nothing held: %+v on %+v", c.name, m, x.GPUs[0])
			}
		}
	}
}

func restarted(t *testing.T, n *Node, held ...Allocation) *Node {
	t.Helper()
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	x := &Node{}
	if err := json.Unmarshal(text, x); err != nil {
		t.Fatal(err)
	}
	x = x.Empty()
	for _, a := range held {
		if err := x.Take(a); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

func TestAdmitsRefusesStalePlans(t *testing.T) {
	plan := func(mode Mode, user string) Allocation {
		return Allocation{Node: "h", User: user, Slices: []Slice{{UUID: "GPU-0", Amount: 30, Mode: mode}}}
	}
	held := func(mode Mode) *Node {
		n := in(mode, host(1, 100))
		if _, m := n.Carve(of("ann", fraction(30))); m != nil {
			t.Fatal(m)
		}
		return n
	}
	for _, c := range []struct {
		name string
		node *Node
		a    Allocation
		want bool
	}{
		{"as it was", held(ModeShim), plan(ModeShim, ""), true},
		{"lost since", losing(held(ModeShim), 0), plan(ModeShim, ""), false},
		{"unfenced since", unfenced(held(ModeShim), 0), plan(ModeShim, ""), false},
		{"gone", host(0, 0), plan(ModeShim, ""), false},
		{"in another mode since", held(ModeMPS), plan(ModeShim, ""), false},
		{"one's own GPU", held(ModeMPS), plan(ModeMPS, "ann"), true},
		{"another has it since", held(ModeMPS), plan(ModeMPS, "bob"), false},
		{"an instance that another has since", held(ModeMIG), plan(ModeMIG, ""), false},
		{"no GPU", host(0, 0), Allocation{Slots: 1}, true},
	} {
		if err := c.node.Admits(c.a); (err == nil) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestSameInventoryIgnoresTheHolder(t *testing.T) {
	n := in(ModeMPS, host(1, 100))
	o := n.Clone()
	if _, m := n.Carve(of("ann", fraction(30))); m != nil {
		t.Fatal(m)
	}
	if !n.SameInventory(o) {
		t.Error("what is held makes another inventory")
	}
	for name, change := range map[string]func(*GPU){
		"mode": func(g *GPU) { g.Mode = ModeShim }, "unfenced": func(g *GPU) { g.Unfenced = "x" },
		"fraction": func(g *GPU) { g.Fraction = 1 }, "parent": func(g *GPU) { g.Parent = "x" },
	} {
		x := n.Clone()
		if change(&x.GPUs[0]); x.SameInventory(o) {
			t.Errorf("another %s is the same inventory", name)
		}
	}
	inv := *unfenced(in(ModeMPS, host(1, 100)), 0)
	n.Resize(inv)
	if g := n.GPUs[0]; g.Unfenced == "" || g.Holder != "ann" || g.Used != 30 {
		t.Errorf("after it registered again: %+v", g)
	}
	if part := n.Part(Allocation{Slices: []Slice{{UUID: "GPU-0", Amount: 100, Memory: 8 * gib}}}); part.GPUs[0].Holder != "" || part.GPUs[0].Mode != ModeMPS || part.GPUs[0].Unfenced == "" {
		t.Errorf("a part of it: %+v", part.GPUs[0])
	}
}

func TestGPUAsText(t *testing.T) {
	g := GPU{UUID: "MIG-1", Mode: ModeMIG, Parent: "GPU-1", Fraction: 1428, Unfenced: "why", Holder: "ann", Capacity: 57}
	text, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	var back GPU
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, g) {
		t.Errorf("%s comes back as %+v (%v)", text, back, err)
	}
	if text, _ := json.Marshal(GPU{}); string(text) != `{"index":0,"uuid":"","model":"","memory":0,"capacity":0,"mode":"","used":0}` {
		t.Errorf("what is not set is written: %s", text)
	}
}

func TestCarveAll(t *testing.T) {
	n := unfenced(instances(host(2, 100), [2]int{1, 1}), 1)
	a, m := n.CarveAll()
	if got := show(a); m != nil || got != "0:1/8192/100 2:0.57/10240/14.28" || a.Slots != 8 || a.Memory != 64*gib || a.Consumables != "licence=2" || !a.Exclusive {
		t.Errorf("got %+v (%s), %+v", a, got, m)
	}
	if _, again := n.CarveAll(); again == nil || again.Blocker != BlockedByExclusive {
		t.Errorf("and once more: %+v", again)
	}
	n.Release(a)
	if fmt.Sprintf("%+v", n) != fmt.Sprintf("%+v", n.Empty()) {
		t.Errorf("after the release: %+v", n)
	}
	for name, n := range map[string]*Node{"a closed node": closed(host(1, 100)), "a node in use": inUse(host(1, 100), Request{Slots: 1}), "a GPU in use": used(host(1, 100))} {
		if a, m := n.CarveAll(); m == nil {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

func inUse(n *Node, r Request) *Node {
	_, _ = n.Carve(r)
	return n
}

// used has a part of a GPU held by nobody who holds a slot: as the shares of reservations are counted.
func used(n *Node) *Node { n.GPUs[0].Used = 1; return n }
