package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"fairslice/backfill/placement"
	"fairslice/backfill/replay"
	"fairslice/nodes"
	"fairslice/reports/plot"
)

func placeCommand() *cli.Command {
	return &cli.Command{
		Name: "place", Usage: "replay an Alibaba GPU trace (cluster-trace-gpu-v2023), for how well GPU fractions are placed",
		Description: "Pods arrive in an order drawn from the seed, and none ends, until so much of the cluster's GPUs has been asked for.\n" +
			"The result is how much of the GPUs is allocated at each percent of arrived load.\n\n" +
			"Example: bsim place --nodes openb_node_list_gpu_node.csv --pods openb_pod_list_default.csv --seed 42 --load 1.3",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "nodes", Usage: "`FILE` of nodes (CSV)"},
			&cli.StringFlag{Name: "pods", Usage: "`FILE` of pods (CSV)"},
			&cli.StringFlag{Name: "seed", Value: "42", Usage: "`N`: the order in which pods arrive"},
			&cli.StringFlag{Name: "load", Value: "1.3", Usage: "arriving GPUs, as a multiple `F` of the cluster's"},
			&cli.StringFlag{Name: "policy", Value: "fragmentation", Usage: "`POLICY` fragmentation, best-fit or packing"},
			&cli.StringFlag{Name: "plot", Usage: "draw the allocated by the arrived share into `FILE` (SVG)"},
			&cli.BoolFlag{Name: "json", Usage: "the result as a JSON document"},
		},
		Action: placePods,
	}
}

// placed is the answer of bsim place.
type placed struct {
	Policy string  `json:"policy"`
	Seed   int64   `json:"seed"`
	Load   float64 `json:"load"`
	*replay.PodPlacement
	Seconds float64 `json:"seconds"`
}

func placePods(c *cli.Context) error {
	if err := require(c, "nodes", "pods"); err != nil {
		return err
	}
	out := &placed{Policy: c.String("policy")}
	var err error
	if out.Seed, err = whole(c, "seed", math.MinInt64, math.MaxInt64); err != nil {
		return err
	}
	if out.Load, err = decimal(c, "load", 100); err != nil {
		return err
	}
	begin := time.Now()
	// A policy that is not known is a mistake that needs no file to be seen.
	if _, _, err := placementPolicy(out.Policy, nil); err != nil {
		return err
	}
	cluster, err := readFile(c.String("nodes"), replay.ReadNodes)
	if err != nil {
		return err
	}
	pods, err := readFile(c.String("pods"), replay.ReadPods)
	if err != nil {
		return err
	}
	policy, mix, err := placementPolicy(out.Policy, cluster)
	if err != nil {
		return err
	}
	bar := newProgress(c.App.ErrWriter, "place")
	out.PodPlacement, err = replay.Place(cluster, pods, replay.PlaceOptions{Seed: out.Seed, Load: out.Load, Policy: policy, Mix: mix, Progress: bar.show})
	bar.end()
	if err != nil {
		return err
	}
	out.Seconds = time.Since(begin).Seconds()
	if file := c.String("plot"); file != "" {
		if err := writeFile(file, func(w io.Writer) error { return plot.WriteSVG(w, out.plot()) }); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		return writeJSON(c.App.Writer, out)
	}
	return out.print(c.App.Writer)
}

// placementPolicy is a policy by its name, and the mix that it is to be told of.
func placementPolicy(name string, cluster []*nodes.Node) (placement.Policy, *placement.Mix, error) {
	switch name {
	case "fragmentation":
		mix := placement.NewMix(0) // arrivals have no times: none is older than another
		return placement.Fragmentation(mix), mix, nil
	case "best-fit":
		return placement.BestFit(cluster...), nil, nil
	case "packing":
		return placement.Packing(), nil, nil
	}
	return nil, nil, wrong("policy", name, "fragmentation, best-fit or packing")
}

func readFile[T any](name string, read func(io.Reader) (T, error)) (v T, err error) {
	f, err := os.Open(name)
	if err != nil {
		return v, err
	}
	defer f.Close()
	if v, err = read(f); err != nil {
		return v, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

func (p *placed) print(to io.Writer) error {
	var t table
	t.row("cluster", fmt.Sprintf("%d nodes, %d GPUs", p.Nodes, p.GPUs))
	t.row("policy", fmt.Sprintf("%s, seed %d", p.Policy, p.Seed))
	t.row("pods", fmt.Sprintf("%d arrived, %d found no place", p.Pods, p.Unplaced))
	for at := 10; at < len(p.Allocated); at += 10 {
		t.row(fmt.Sprintf("allocated at %d %%", at), fmt.Sprintf("%.2f %%", p.Allocated[at]))
	}
	t.row("at the end", fmt.Sprintf("%.2f %%", p.Final))
	t.row("seconds used", fmt.Sprintf("%.2f", p.Seconds))
	return t.print(to)
}

func (p *placed) plot() *plot.Plot {
	x := make([]float64, len(p.Allocated))
	for i := range x {
		x[i] = float64(i)
	}
	return &plot.Plot{Title: fmt.Sprintf("GPUs allocated, %s, seed %d", p.Policy, p.Seed), X: "% arrived", Y: "% allocated",
		Series: []plot.Series{{Name: p.Policy, X: x, Y: p.Allocated}}}
}
