package replay

import (
	"bytes"
	"encoding/csv"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fairslice/backfill/placement"
	"fairslice/nodes"
)

func own[T any](t *testing.T, name string, read func(*bytes.Reader) (T, error)) T {
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	v, err := read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func ownNodes(t *testing.T) []*nodes.Node {
	return own(t, "pods_nodes.csv", func(r *bytes.Reader) ([]*nodes.Node, error) { return ReadNodes(r) })
}

func ownPods(t *testing.T) []Pod {
	return own(t, "pods.csv", func(r *bytes.Reader) ([]Pod, error) { return ReadPods(r) })
}

func TestReadOwnTrace(t *testing.T) {
	ns, pods := ownNodes(t), ownPods(t)
	if len(ns) != 5 || len(pods) != 12 {
		t.Fatalf("%d nodes, %d pods", len(ns), len(pods))
	}
	n := ns[2]
	if n.ID != "pair-1" || n.Slots != 16000 || n.Memory != 64<<30 || len(n.GPUs) != 2 || n.GPUs[1].Capacity != 100 || n.GPUs[1].Model != "P4" {
		t.Errorf("pair-1 is read as %+v", n)
	}
	want := map[string]Pod{
		"train-2":   {Name: "train-2", Request: nodes.Request{Slots: 32000, Memory: 128 << 30, GPU: nodes.GPURequest{Whole: 4}}, Models: []string{"L8"}},
		"single-2":  {Name: "single-2", Request: nodes.Request{Slots: 8000, Memory: 32 << 30, GPU: nodes.GPURequest{Whole: 1}}, Models: []string{"P4", "L8"}},
		"infer-5":   {Name: "infer-5", Request: nodes.Request{Slots: 4000, Memory: 8 << 30, GPU: nodes.GPURequest{Amount: 81}}},
		"prepare-1": {Name: "prepare-1", Request: nodes.Request{Slots: 8000, Memory: 16 << 30}},
	}
	for _, p := range pods {
		if w, ok := want[p.Name]; ok && !reflect.DeepEqual(p, w) {
			t.Errorf("%s is read as %+v, want %+v", p.Name, p, w)
		}
	}
}

func TestReadPodsOfFiveColumns(t *testing.T) {
	pods, err := ReadPods(strings.NewReader("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,2,1,50\n"))
	if err != nil || len(pods) != 1 || pods[0].Request.GPU.Amount != 5 || pods[0].Models != nil {
		t.Errorf("%+v, %v", pods, err)
	}
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	const pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
	const few = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
	const cluster = "sn,cpu_milli,memory_mib,gpu,model\n"
	readPods := func(s string) error { _, err := ReadPods(strings.NewReader(s)); return err }
	readNodes := func(s string) error { _, err := ReadNodes(strings.NewReader(s)); return err }
	for _, c := range []struct {
		name string
		read func(string) error
		in   string
		want string
	}{
		{"nothing", readPods, "", "line 1: the file is empty"},
		{"nodes for pods", readPods, cluster, "line 1: the columns are"},
		{"pods for nodes", readNodes, pods, "line 1: the columns are"},
		{"a field too few", readPods, few + "a,1,2,0\n", "line 2: wrong number of fields"},
		{"a field too many", readPods, few + "a,1,2,0,0,T4\n", "line 2: wrong number of fields"},
		{"an open quote", readPods, few + "\"a,1,2,0,0\n", `line 2: extraneous or missing " in quoted-field`},
		{"no name", readPods, few + ",1,2,0,0\n", `line 2: name "": want a name`},
		{"a name twice", readPods, few + "a,1,2,0,0\na,1,2,0,0\n", `line 3: name "a": another line has this name`},
		{"a sign", readPods, few + "a,-1,2,0,0\n", `line 2: cpu_milli "-1": want a whole number from 0`},
		{"a decimal", readPods, few + "a,1.5,2,0,0\n", `line 2: cpu_milli "1.5": want a whole number`},
		{"far too much memory", readPods, few + "a,1,99999999999999999999,0,0\n", `memory_mib "99999999999999999999": want`},
		{"more than a GPU of one", readPods, few + "a,1,2,1,1001\n", `gpu_milli "1001": want a whole number from 0 to 1000`},
		{"finer than hundredths", readPods, few + "a,1,2,1,333\n", `line 2: gpu_milli "333": want 10 to 1000 in steps of 10`},
		{"no part of one GPU", readPods, few + "a,1,2,1,0\n", `line 2: gpu_milli "0": want 10 to 1000`},
		{"parts of several GPUs", readPods, few + "a,1,2,2,500\n", `line 2: gpu_milli "500": want 1000: several GPUs are whole ones`},
		{"a part of no GPU", readPods, few + "a,1,2,0,500\n", `line 2: gpu_milli "500": want 0`},
		{"an empty alternative", readPods, pods + "a,1,2,1,500,T4|,LS,Running,1,2,3\n", `line 2: gpu_spec "T4|": want GPU models separated by |`},
		{"another separator", readPods, pods + "a,1,2,1,500,T4;G2,LS,Running,1,2,3\n", `line 2: gpu_spec "T4;G2"`},
		{"a model for no GPU", readPods, pods + "a,1,2,0,0,T4,LS,Running,1,2,3\n", `line 2: gpu_spec "T4": a pod without a GPU`},
		{"a time that is none", readPods, pods + "a,1,2,0,0,,LS,Running,soon,2,3\n", `line 2: creation_time "soon": want a whole number`},
		{"a node without a name", readNodes, cluster + ",1,2,0,\n", `line 2: sn "": want a name`},
		{"GPUs without a model", readNodes, cluster + "a,1,2,4,\n", `line 2: model "": a node has a GPU model exactly when it has GPUs`},
		{"a model without GPUs", readNodes, cluster + "a,1,2,0,T4\n", `line 2: model "T4"`},
		{"two models on a node", readNodes, cluster + "a,1,2,1,T4|G2\n", `line 2: model "T4|G2": want letters`},
		{"too many GPUs", readNodes, cluster + "a,1,2,65,T4\n", `line 2: gpu "65": want a whole number from 0 to 64`},
	} {
		err := c.read(c.in)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func podPolicies(ns []*nodes.Node) map[string]PlaceOptions {
	mix := placement.NewMix(0)
	return map[string]PlaceOptions{
		"fragmentation": {Policy: placement.Fragmentation(mix), Mix: mix},
		"best-fit":      {Policy: placement.BestFit(ns...)},
		"packing":       {Policy: placement.Packing()},
	}
}

// Seven GPUs' worth of pods fit the twelve GPUs, whoever places them.
func TestPlaceWhatFits(t *testing.T) {
	for name := range podPolicies(nil) {
		ns, pods := ownNodes(t), ownPods(t)
		o := podPolicies(ns)[name]
		o.Seed, o.Load = 1, 0.6
		got, err := Place(ns, pods, o)
		if err != nil {
			t.Fatal(name, err)
		}
		var asked nodes.Amount
		for i, on := range got.On {
			if on == "" {
				t.Errorf("%s: arrival %d found no place", name, i)
			}
		}
		for _, n := range ns {
			for _, g := range n.GPUs {
				asked += g.Used
			}
		}
		if got.Nodes != 5 || got.GPUs != 12 || got.Unplaced != 0 || got.Final != 100*float64(asked)/1200 || got.Final > 60 {
			t.Errorf("%s: %+v, %s fGPU in use", name, got, asked)
		}
	}
}

// At five times the load: the nodes hold what they can and no more, shares only grow, a pod is on a node that it accepts.
func TestPlaceWhenOverloaded(t *testing.T) {
	for name := range podPolicies(nil) {
		var first *PodPlacement
		for range 2 {
			ns, pods := ownNodes(t), ownPods(t)
			o := podPolicies(ns)[name]
			o.Seed, o.Load = 7, 5
			got, err := Place(ns, pods, o)
			if err != nil {
				t.Fatal(name, err)
			}
			if first != nil && !reflect.DeepEqual(got, first) {
				t.Errorf("%s: the same seed gives another placement", name)
			}
			first = got
			if got.Unplaced == 0 || len(got.On) != got.Pods || len(got.Allocated) < 500 || got.Final > 100 {
				t.Errorf("%s: %d of %d unplaced, %d shares, %g at last", name, got.Unplaced, got.Pods, len(got.Allocated), got.Final)
			}
			if !slices.IsSorted(got.Allocated) {
				t.Errorf("%s: the allocated share falls: %v", name, got.Allocated)
			}
			order, _, _ := arrivals(ns, pods, 1200, o)
			for i, on := range got.On {
				k := slices.IndexFunc(ns, func(n *nodes.Node) bool { return n.ID == on })
				if k >= 0 && !pods[order[i]].accepts(ns[k]) {
					t.Errorf("%s: %s is on %s", name, pods[order[i]].Name, on)
				}
			}
		}
	}
}

func TestPlaceRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		ns   []*nodes.Node
		pods []Pod
		load float64
		want string
	}{
		{"no load", ownNodes(t), ownPods(t), 0, "load 0: want more than 0"},
		{"an absurd load", ownNodes(t), ownPods(t), 1e9, "at most 100 times"},
		{"no GPUs", ownNodes(t)[4:], ownPods(t), 1, "no node has a GPU"},
		{"no pods with GPUs", ownNodes(t), ownPods(t)[10:], 1, "no pod asks for a GPU"},
		{"no pods", ownNodes(t), nil, 1, "no pod asks for a GPU"},
	} {
		_, err := Place(c.ns, c.pods, PlaceOptions{Load: c.load, Policy: placement.Packing()})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// What is read is within bounds, and reads the same when it is written again.
func FuzzReadPods(f *testing.F) {
	text, err := os.ReadFile("testdata/pods.csv")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,2,1,50\n")
	f.Add("name,cpu_milli,memory_mib,num_gpu,gpu_milli\n\"a\n,1,2,1,50\n")
	f.Fuzz(func(t *testing.T, in string) {
		pods, err := ReadPods(strings.NewReader(in))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") {
				t.Fatalf("%q: %v has no line", in, err)
			}
			return
		}
		var again bytes.Buffer
		out := csv.NewWriter(&again)
		_ = out.Write(podColumns)
		for _, p := range pods {
			g := p.Request.GPU
			if p.Request.Slots < 0 || p.Request.Memory < 0 || g.Amount < 0 || g.Amount > 99 || g.Whole < 0 || g.Whole > maxNodeGPUs || g.Amount > 0 && g.Whole > 0 {
				t.Fatalf("%q is read as %+v", in, p)
			}
			count, milli := g.Whole, 1000
			switch {
			case g.Amount > 0:
				count, milli = 1, int(g.Amount)*10
			case g.Whole == 0:
				milli = 0
			}
			_ = out.Write([]string{p.Name, strconv.Itoa(p.Request.Slots), strconv.FormatInt(p.Request.Memory>>20, 10),
				strconv.Itoa(count), strconv.Itoa(milli), strings.Join(p.Models, "|"), "", "", "", "", ""})
		}
		out.Flush()
		back, err := ReadPods(&again)
		if err != nil || !reflect.DeepEqual(back, pods) {
			t.Fatalf("%q: %v\n%+v\n%+v", in, err, pods, back)
		}
	})
}

func FuzzReadNodes(f *testing.F) {
	text, err := os.ReadFile("testdata/pods_nodes.csv")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("sn,cpu_milli,memory_mib,gpu,model\na,1,2,64,T4\n")
	f.Fuzz(func(t *testing.T, in string) {
		ns, err := ReadNodes(strings.NewReader(in))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") {
				t.Fatalf("%q: %v has no line", in, err)
			}
			return
		}
		seen := map[nodes.ID]bool{}
		for _, n := range ns {
			if seen[n.ID] || n.ID == "" || n.Slots < 0 || n.Memory < 0 || len(n.GPUs) > maxNodeGPUs || len(n.GPUs) > 0 && n.GPUs[0].Model == "" {
				t.Fatalf("%q is read as %+v", in, n)
			}
			seen[n.ID] = true
		}
	})
}
