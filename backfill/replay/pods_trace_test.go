package replay

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"fairslice/backfill/placement"
	"fairslice/nodes"
)

// alibaba opens a file of the Alibaba GPU trace, which is not part of this repository.
func alibaba(t testing.TB, name string) *os.File {
	dir := os.Getenv("FAIRSLICE_TRACES")
	if dir == "" {
		dir = "../../../shared/traces"
	}
	f, err := os.Open(filepath.Join(dir, "alibaba-gpu-v2023", name))
	if err != nil {
		t.Skipf("set FAIRSLICE_TRACES to the folder that has alibaba-gpu-v2023: %v", err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func alibabaNodes(t testing.TB) []*nodes.Node {
	ns, err := ReadNodes(alibaba(t, "openb_node_list_gpu_node.csv"))
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

func alibabaPods(t testing.TB, workload string) []Pod {
	pods, err := ReadPods(alibaba(t, "openb_pod_list_"+workload+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

func TestX(t *testing.T) {
	n := int64(2)
	fmt.Sscan(os.Getenv("SEEDS"), &n)
	for _, w := range []string{"default", "gpushare40", "gpuspec33", "multigpu50", "cpu250"} {
		pods := alibabaPods(t, w)
		var a, b, c float64
		un := 0
		t0 := time.Now()
		for seed := int64(42); seed < 42+n; seed++ {
			ns := alibabaNodes(t)
			mix := placement.NewMix(0)
			if os.Getenv("TYPICAL") != "" {
				for i := range pods {
					mix.Observe(pods[i].among(), 1e6, time.Unix(0, 0))
				}
			}
			r, err := Place(ns, pods, PlaceOptions{Seed: seed, Load: 1.3, Policy: placement.Fragmentation(mix), Mix: mix})
			if err != nil {
				t.Fatal(err)
			}
			a += r.Allocated[130] / float64(n)
			b += r.Allocated[100] / float64(n)
			c += r.Allocated[90] / float64(n)
			un += r.Unplaced
		}
		fmt.Printf("%s 130:%.2f 100:%.2f 90:%.2f unplaced %d %.1fs\n", w, a, b, c, un, time.Since(t0).Seconds())
	}
}
