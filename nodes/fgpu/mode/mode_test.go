package mode

import (
	"strings"
	"testing"

	"fairslice/nodes"
)

func TestChoose(t *testing.T) {
	both := Node{Shim: true, MPS: true}
	plain := GPU{Index: 3, UUID: "GPU-a", ComputeCapability: "9.0"}
	with := func(change func(*GPU)) GPU {
		g := plain
		change(&g)
		return g
	}
	divided := with(func(g *GPU) { g.MIG = true; g.Instances = []Instance{{UUID: "MIG-1"}, {UUID: "MIG-2"}} })
	undivided := with(func(g *GPU) { g.MIG = true })
	sharing := with(func(g *GPU) { g.MIG = true; g.Instances = []Instance{{UUID: "MIG-1"}, {UUID: "MIG-2", Shared: true}} })
	exclusive := with(func(g *GPU) { g.ComputeMode = "Exclusive_Process" })
	prohibited := with(func(g *GPU) { g.ComputeMode = "Prohibited" })
	of := func(capability string) GPU { return with(func(g *GPU) { g.ComputeCapability = capability }) }

	for _, c := range []struct {
		name    string
		gpu     GPU
		node    Node
		setting string
		want    nodes.Mode // "": an error
		says    string
	}{
		{"auto takes the instances of a divided GPU", divided, both, "auto", "mig", "2 instances"},
		{"nothing said is auto", divided, both, "", "mig", "2 instances"},
		{"auto takes the shim elsewhere", plain, both, "auto", "shim", "not in MIG mode"},
		{"auto never takes MPS, even where only that would do", exclusive, both, "auto", "", "choose mps"},
		{"auto never takes bookkeeping", plain, Node{MPS: true}, "auto", "", "libfgpu.so is not installed"},
		{"auto does not offer an undivided GPU", undivided, both, "auto", "", "MIG mode is on, but it has no instance"},
		{"auto does not offer instances that share memory", sharing, both, "auto", "", "MIG-2 shares its memory"},
		{"instances need no shim", divided, Node{}, "mig", "mig", "2 instances"},
		{"mig without MIG mode", plain, both, "mig", "", "nvidia-smi -i 3 -mig 1"},
		{"mig without instances", undivided, both, "mig", "", "nvidia-smi mig -i 3 -cgi"},
		{"mps where the site says so", plain, both, "mps", "mps", "held by the shim alone"},
		{"mps that cannot be avoided", exclusive, both, "mps", "mps", "keeps programs from avoiding MPS"},
		{"mps on the oldest GPU that can", of("7.0"), both, "mps", "mps", ""},
		{"mps on one that cannot", of("6.1"), both, "mps", "", "since 7.0"},
		{"mps on one of which nobody knows", of(""), both, "mps", "", "not known"},
		{"mps on one that makes no sense", of("nine"), both, "mps", "", "want MAJOR.MINOR"},
		{"mps on a GPU of two digits", of("12.0"), both, "mps", "mps", ""},
		{"mps without its daemon", plain, Node{Shim: true}, "mps", "", "nvidia-cuda-mps-control is not installed"},
		{"mps without the shim", plain, Node{MPS: true}, "mps", "", "libfgpu.so is not installed"},
		{"mps under MIG", divided, both, "mps", "", "nvidia-smi -i 3 -mig 0"},
		{"shim where the site says so", plain, both, "shim", "shim", "configuration"},
		{"shim under MIG", divided, both, "shim", "", "choose mig or auto"},
		{"shim on an exclusive GPU", exclusive, both, "shim", "", "nvidia-smi -i 3 -c DEFAULT"},
		{"count needs nothing", plain, Node{}, "count", "count", "nothing holds"},
		{"count under MIG", divided, both, "count", "", "choose mig or auto"},
		{"a GPU that is closed to programs", prohibited, both, "auto", "", "Prohibited"},
		{"a GPU that is closed to programs, for bookkeeping", prohibited, both, "count", "", "nvidia-smi -i 3 -c DEFAULT"},
		{"an unknown setting", plain, both, "MIG", "", "auto, mig, mps, shim, count"},
	} {
		got, why, err := Choose(c.gpu, c.node, c.setting)
		if got != c.want || (err == nil) != (c.want != "") || (why == "") != (c.want == "") {
			t.Errorf("%s: got %q, %q, %v", c.name, got, why, err)
			continue
		}
		text := why
		if err != nil {
			text = err.Error()
			if c.name != "an unknown setting" && !strings.HasPrefix(text, "GPU 3 (GPU-a): ") {
				t.Errorf("%s: %q does not say which GPU", c.name, text)
			}
		}
		if !strings.Contains(text, c.says) {
			t.Errorf("%s: %q does not say %q", c.name, text, c.says)
		}
	}
}

func FuzzMajorOf(f *testing.F) {
	for _, s := range []string{"9.0", "12.0", "", ".", "9", "-1.0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := majorOf(s); err == nil && (n < 0 || !strings.Contains(s, ".")) {
			t.Fatalf("%q is %d", s, n)
		}
	})
}
