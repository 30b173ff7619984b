package queue

import (
	"strings"
	"testing"

	"fairslice/nodes"
)

func TestParseGPU(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		notes          int
		err            string
	}{
		{"the defaults", "-", "num=1", 0, ""},
		{"a number", "num=2", "num=2", 0, ""},
		{"quotes that a script passed on", `"num=2"`, "num=2", 0, ""},
		{"LSF's defaults written out", "num=1:mode=shared:mps=no:j_exclusive=no", "num=1:mode=shared", 0, ""},
		{"exclusive, by mode", "num=1:mode=exclusive_process", "num=1:j_exclusive=yes", 0, ""},
		{"exclusive to the job", "num=4:mode=shared:j_exclusive=yes", "num=4:mode=shared:j_exclusive=yes", 0, ""},
		{"per task", "num=2/task", "num=2/task", 0, ""},
		{"per host is the default", "num=2/host", "num=2", 0, ""},
		{"memory in MB", "gmem=4096", "num=1:gmem=4G", 0, ""},
		{"memory is rounded up to MB", "gmem=1.0001M", "num=1:gmem=2M", 0, ""},
		{"a model", "num=1:gmodel=NVIDIA A100-SXM4", "num=1:gmodel=NVIDIA A100-SXM4", 0, ""},
		{"ours", "fgpu=0.50", "fgpu=0.5", 0, ""},
		{"ours with LSF's one GPU", "num=1:fgpu=0.5:mode=shared", "fgpu=0.5:mode=shared", 0, ""},
		{"wr's, with a note", "num=1:mig=2:aff=no", "num=1", 1, ""},
		{"all without effect", "mps=yes,shared,nocvd:aff=yes:block=yes:gpack=yes:gvendor=nvidia:gtile='!':glink=yes:mig=3/1", "num=1", 7, ""},

		{"empty", "", "", 0, `want "-" or key=value`},
		{"an unknown key", "number=2", "", 0, "want one of num mode"},
		{"twice", "num=1:num=2", "", 0, "given twice"},
		{"no value", "num=", "", 0, "want \"-\" or key=value"},
		{"no GPU", "num=0", "", 0, "Expected number from 1"},
		{"a word", "num=two", "", 0, "Expected number from 1"},
		{"overflow", "num=99999999999999999999", "", 0, "Expected number from 1"},
		{"per job", "num=1/job", "", 0, "num=N/task or num=N/host"},
		{"an unknown mode", "mode=prohibited", "", 0, "shared or exclusive_process"},
		{"maybe", "j_exclusive=maybe", "", 0, "want yes or no"},
		{"another vendor", "gvendor=amd", "", 0, "only nvidia"},
		{"no memory", "gmem=0", "", 0, "want a size"},
		{"fgpu of nothing", "fgpu=0", "", 0, "more than 0 fGPU"},
		{"fgpu times num", "fgpu=0.5:num=2", "", 0, "either fgpu=X or num=N"},
		{"fgpu for each task", "fgpu=0.5:num=1/task", "", 0, "either fgpu=X or num=N"},
		{"fgpu alone", "fgpu=0.5:j_exclusive=yes", "", 0, "share of a GPU"},
		{"fgpu and memory", "fgpu=0.5:gmem=4G", "", 0, "give one of them"},
		{"mps of nothing", "mps=maybe", "", 0, "mps: want"},
		{"a MIG of nothing", "mig=9", "", 0, "mig: want"},
	} {
		got, notes, err := ParseGPU(c.in, mib)
		check(t, c.name, got.String(), c.want, err, c.err)
		if len(notes) != c.notes {
			t.Errorf("%s: notes %q, want %d", c.name, notes, c.notes)
		}
	}
}

func TestGPURequest(t *testing.T) {
	for _, c := range []struct {
		name, gpu, rusage string
		slots, most       int
		want              nodes.GPURequest
		err               string
	}{
		{"no GPU", "", "", 1, 0, nodes.GPURequest{}, ""},
		{"a fraction", "fgpu=0.5", "", 1, 0, nodes.GPURequest{Amount: 50}, ""},
		{"a fraction by rusage", "", "rusage[fgpu=1.5]", 1, 0, nodes.GPURequest{Amount: 150}, ""},
		{"a number of GPUs", "num=2", "", 1, 0, nodes.GPURequest{Whole: 2}, ""},
		{"shared without a size is whole", "num=1:mode=shared", "", 1, 0, nodes.GPURequest{Whole: 1}, ""},
		{"the smallest slice with 4 GB", "num=1:mode=shared:gmem=4G", "", 1, 0, nodes.GPURequest{Memory: 4 * testGiB, Count: 1}, ""},
		{"two such slices", "num=2:gmem=4G:gmodel=A100", "", 1, 0, nodes.GPURequest{Memory: 4 * testGiB, Count: 2, Model: "A100"}, ""},
		{"exclusive with memory is whole, of at least that", "num=1:j_exclusive=yes:gmem=4G", "", 1, 0, nodes.GPURequest{Whole: 1, MinMemory: 4 * testGiB}, ""},
		{"by rusage", "", "rusage[ngpus_physical=2]", 1, 0, nodes.GPURequest{Whole: 2}, ""},
		{"slices by rusage", "", "rusage[ngpus_physical=2:gmem=1G]", 1, 0, nodes.GPURequest{Memory: testGiB, Count: 2}, ""},
		{"for each task of one host", "num=2/task", "span[hosts=1]", 4, 0, nodes.GPURequest{Whole: 8}, ""},
		{"for each task of ptile", "num=2/task", "span[ptile=2]", 4, 0, nodes.GPURequest{Whole: 4}, ""},
		{"for one task", "num=2/task", "", 1, 0, nodes.GPURequest{Whole: 2}, ""},
		{"for tasks that may be anywhere", "num=2/task", "", 4, 0, nodes.GPURequest{}, "span[hosts=1]"},
		{"for tasks that do not divide", "num=2/task", "span[ptile=3]", 4, 0, nodes.GPURequest{}, "a multiple of n"},
		{"for a range of tasks", "num=2/task", "span[hosts=1]", 2, 4, nodes.GPURequest{}, "without a range"},
		{"more than a host can have", "num=10000/task", "span[hosts=1]", 4, 0, nodes.GPURequest{}, "at most 10000"},
		{"both, and the same", "num=2", "rusage[ngpus_physical=2]", 1, 0, nodes.GPURequest{Whole: 2}, ""},
		{"both, and different", "num=2", "rusage[fgpu=0.5]", 1, 0, nodes.GPURequest{}, "ask for different GPUs"},
	} {
		s := &Spec{GPU: c.gpu, MinSlots: c.slots, MaxSlots: c.most}
		var err error
		if s.Resources, err = ParseResReq([]string{c.rusage}, testSite); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if c.gpu != "" {
			opt, _, err := ParseGPU(c.gpu, mib)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			s.GPURequest = &opt
		}
		got, err := GPURequest(s)
		check(t, c.name, got, c.want, err, c.err)
	}
}

func FuzzParseGPU(f *testing.F) {
	for _, s := range []string{"-", "num=2/task:gmem=4G", "fgpu=0.5:gmodel=A100", "mps=yes,nocvd:mig=2/1", "num=1:num=1", strings.Repeat("aff=no:", 20)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, _, err := ParseGPU(s, mib)
		if err != nil {
			return
		}
		if again, _, err := ParseGPU(o.String(), mib); err != nil || again != o {
			t.Fatalf("%q gives %s, which reads back as %+v (%v)", s, o, again, err)
		}
		if o.Request(3).Zero() {
			t.Fatalf("%q asks for nothing", s)
		}
	})
}

func TestExclusiveGPUHasAtLeastTheMemoryAskedFor(t *testing.T) {
	n := &nodes.Node{ID: "n", Alive: true, Slots: 4, Memory: testGiB, GPUs: []nodes.GPU{
		{Index: 0, UUID: "small", Memory: 2 * testGiB, Capacity: 100}, {Index: 1, UUID: "large", Memory: 8 * testGiB, Capacity: 100}}}
	opt, _, err := ParseGPU("num=1:j_exclusive=yes:gmem=4G", mib)
	if err != nil {
		t.Fatal(err)
	}
	a, misfit := n.Carve(nodes.Request{Slots: 1, GPU: opt.Request(1)})
	if misfit != nil || len(a.Slices) != 1 || a.Slices[0].UUID != "large" {
		t.Errorf("got %+v (%+v), want the large GPU", a.Slices, misfit)
	}
	if n.Fit(nodes.Request{GPU: opt.Request(1)}) == nil {
		t.Error("the small GPU must not do")
	}
}
