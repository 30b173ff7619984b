package replay

import (
	"bufio"
	"compress/gzip"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"fairslice/backfill/placement"
	"fairslice/nodes"
)

// alibaba opens a file of the Alibaba GPU trace, which is not part of this repository.
func alibaba(t testing.TB, name string) *os.File {
	f, err := os.Open(traceFile(t, "alibaba-gpu-v2023", name))
	if err != nil {
		t.Fatal(err)
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

// traceSeeds are the seeds of the published results from 42 on: the first, or as many as FAIRSLICE_TRACE_SEEDS says.
func traceSeeds(t testing.TB) int {
	text := os.Getenv("FAIRSLICE_TRACE_SEEDS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > len(publishedShares[0].bestFit) {
		t.Fatalf("FAIRSLICE_TRACE_SEEDS is %q; want 1 to %d", text, len(publishedShares[0].bestFit))
	}
	return n
}

// publishedShares is the allocated share in percent at 130 % arrived load, seeds 42 to 51, of the simulator that comes
// with "Beware of Fragmentation" (ATC'23).
var publishedShares = []struct {
	workload              string
	packing, bestFit, fgd []float64
}{
	{"default",
		[]float64{91.57, 92.06, 92.1, 92.79, 91.3, 91.29, 92.78, 92.06, 91.69, 92.38},
		[]float64{93.13, 93.25, 93.09, 93.14, 93.19, 93.04, 92.95, 93.21, 92.87, 92.89},
		[]float64{95.29, 95.32, 95.44, 95.48, 95.49, 95.27, 95.37, 95.47, 95.35, 95.43}},
	{"gpushare40",
		[]float64{90.16, 90.31, 90.67, 90.67, 89.98, 89.03, 89.86, 89.86, 90.24, 89.52},
		[]float64{91.66, 91.16, 91.76, 91.72, 91.8, 91.8, 91.69, 91.74, 91.96, 91.6},
		[]float64{94.24, 94.14, 94.12, 94.07, 94.04, 94.13, 94.2, 94.16, 94.14, 94.24}},
	{"gpuspec33",
		[]float64{92.78, 93.08, 93.38, 94.14, 92.26, 93.46, 94.01, 93.0, 92.44, 93.65},
		[]float64{92.96, 92.96, 93.11, 93.41, 93.12, 93.06, 93.21, 93.06, 93.15, 92.89},
		[]float64{94.39, 94.52, 94.59, 94.79, 94.43, 94.53, 94.66, 94.61, 94.3, 94.65}},
	{"multigpu50",
		[]float64{95.6, 95.9, 96.54, 95.9, 96.21, 96.11, 96.52, 96.37, 96.16, 96.51},
		[]float64{95.55, 95.56, 95.64, 95.54, 95.85, 95.58, 96.03, 95.92, 95.77, 95.94},
		[]float64{97.16, 97.14, 97.37, 97.2, 97.12, 97.12, 97.19, 97.23, 96.98, 97.27}},
	{"cpu250",
		[]float64{87.48, 88.6, 88.15, 88.85, 87.51, 89.06, 88.06, 88.47, 87.46, 89.16},
		[]float64{91.51, 91.55, 91.4, 91.58, 91.16, 91.7, 91.12, 91.74, 91.21, 91.49},
		[]float64{93.51, 93.98, 93.04, 93.49, 93.32, 93.33, 93.32, 93.52, 93.57, 93.03}},
}

// The baselines repeat the published results seed by seed, to the hundredth that is published; fragmentation, which knows
// of the mix only what has arrived, is above the published policy on the same arrivals.
func TestPlaceAlibaba(t *testing.T) {
	seeds := traceSeeds(t)
	for _, w := range publishedShares {
		pods := alibabaPods(t, w.workload)
		var packing, bestFit, fragmentation, fgd, at100 float64
		for i := range seeds {
			place := func(o PlaceOptions) *PodPlacement {
				o.Seed, o.Load = int64(42+i), 1.3
				if o.Policy == nil {
					o.Policy = placement.BestFit(alibabaNodes(t)...)
				}
				got, err := Place(alibabaNodes(t), pods, o)
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			p, b := place(PlaceOptions{Policy: placement.Packing()}).Allocated[130], place(PlaceOptions{}).Allocated[130]
			if math.Abs(p-w.packing[i]) > 0.02 || math.Abs(b-w.bestFit[i]) > 0.02 {
				t.Errorf("%s, seed %d: packing %.2f, published %.2f; best-fit %.2f, published %.2f",
					w.workload, 42+i, p, w.packing[i], b, w.bestFit[i])
			}
			mix := placement.NewMix(0)
			f := place(PlaceOptions{Policy: placement.Fragmentation(mix), Mix: mix})
			if f.Allocated[130] <= w.fgd[i] {
				t.Errorf("%s, seed %d: fragmentation %.2f, not above the published %.2f", w.workload, 42+i, f.Allocated[130], w.fgd[i])
			}
			n := float64(seeds)
			packing, bestFit, fragmentation, fgd = packing+p/n, bestFit+b/n, fragmentation+f.Allocated[130]/n, fgd+w.fgd[i]/n
			at100 += f.Allocated[100] / n
		}
		t.Logf("%-10s %d seeds: packing %.2f, best-fit %.2f, fragmentation %.2f (%.2f at 100 %%), published FGD %.2f",
			w.workload, seeds, packing, bestFit, fragmentation, at100, fgd)
	}
}

// The published simulator's own record of seed 42.
func TestArrivalsAreThePublishedOnes(t *testing.T) {
	zipped, err := gzip.NewReader(alibaba(t, "fgd_default_seed42_order.txt.gz"))
	if err != nil {
		t.Fatal(err)
	}
	ns, pods := alibabaNodes(t), alibabaPods(t, "default")
	order, _, err := arrivals(ns, pods, 621200, PlaceOptions{Seed: 42, Load: 1.3})
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for lines := bufio.NewScanner(zipped); lines.Scan(); {
		name, _, _ := strings.Cut(lines.Text(), " ")
		if name == "#" {
			continue
		}
		name, _, _ = strings.Cut(name, "-tuned-")
		if i >= len(order) || pods[order[i]].Name != name {
			t.Fatalf("arrival %d is not %s", i, name)
		}
		i++
	}
	if i != 10_866 || len(order) != i {
		t.Errorf("%d arrivals, the record has %d; want 10,866", len(order), i)
	}
}
