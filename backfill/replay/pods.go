package replay

import (
	"errors"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"time"

	"fairslice/backfill/placement"
	"fairslice/nodes"
)

// PodPlacement is what a placement policy made of arriving pods. Shares are percent of all GPUs of the cluster.
type PodPlacement struct {
	Nodes    int `json:"nodes"`
	GPUs     int `json:"gpus"`
	Pods     int `json:"pods"` // arrived
	Unplaced int `json:"unplaced"`
	// Allocated has, for each whole percent of arrived load from 0, the percent allocated: the mean over the
	// arrivals that round to it. A percent that no arrival rounds to repeats the one before.
	Allocated []float64 `json:"allocated"`
	Final     float64   `json:"final"` // after the last arrival
	// On is the node of each arrival, "" for none.
	On []nodes.ID `json:"-"`
}

// PlaceOptions says how pods arrive and who places them.
type PlaceOptions struct {
	Seed   int64
	Load   float64 // arriving GPUs in parts of the cluster's: 1.3 is 130 %
	Policy placement.Policy
	// Mix, if any, is told of the nodes, and of each pod when it arrives, before it is placed.
	Mix *placement.Mix
	// Progress, if any, is called now and then with how many of the pods have arrived.
	Progress func(done, of int)
}

// Place lets pods arrive one after another, none of which ever ends, and puts each on the node where it costs
// least, or nowhere when it fits no node: the protocol of "Beware of Fragmentation" (ATC'23), whose arrivals
// (see arrivals) it repeats. Nodes are changed.
func Place(ns []*nodes.Node, pods []Pod, o PlaceOptions) (*PodPlacement, error) {
	capacity, err := podCapacity(ns)
	if err != nil {
		return nil, err
	}
	order, ranked, err := arrivals(ns, pods, capacity, o)
	if err != nil {
		return nil, err
	}
	if o.Mix != nil {
		o.Mix.Supply(ns)
	}
	p := newPodPlacer(ranked, pods, o.Policy)
	out := &PodPlacement{Nodes: len(ns), GPUs: int(capacity / nodes.OneFGPU), Pods: len(order)}
	curve := newShareCurve(capacity, o.Load)
	for i, pod := range order {
		if o.Progress != nil && i%1000 == 0 {
			o.Progress(i, len(order))
		}
		if o.Mix != nil {
			o.Mix.Observe(pods[pod].among(), 1, time.Unix(int64(i), 0))
		}
		on, err := p.place(pod)
		if err != nil {
			return nil, err
		}
		out.On = append(out.On, on)
		if on == "" {
			out.Unplaced++
		}
		curve.add(pods[pod].gpus(), on != "")
	}
	out.Allocated, out.Final = curve.shares(), curve.share()
	return out, nil
}

func podCapacity(ns []*nodes.Node) (sum nodes.Amount, err error) {
	for _, n := range ns {
		for i := range n.GPUs {
			sum += n.GPUs[i].Capacity
		}
	}
	if sum == 0 {
		return 0, errors.New("no node has a GPU: there is nothing to measure")
	}
	return sum, nil
}

// skippedDraws is how often the published simulator draws between the arrivals and the order of the nodes.
const skippedDraws = 10

// arrivals is the order of pods, as indices, and the nodes in the order in which equal ones are preferred, both
// as the published simulator (hkust-adsl/kubernetes-scheduler-simulator) draws them from the seed: pods by name, shuffled;
// then pods drawn at random are appended while what arrives stays within the load, or taken out while it is above.
// Its test for the load counts one GPU of an appended pod only, so that the load may be passed by a few GPUs.
func arrivals(ns []*nodes.Node, pods []Pod, capacity nodes.Amount, o PlaceOptions) ([]int, []*nodes.Node, error) {
	if !(o.Load > 0 && o.Load <= 100) {
		return nil, nil, fmt.Errorf("load %g: want more than 0, and at most 100 times the cluster", o.Load)
	}
	byName := make([]int, len(pods))
	var sum nodes.Amount
	for i := range pods {
		byName[i] = i
		sum += pods[i].gpus()
	}
	if sum == 0 {
		return nil, nil, errors.New("no pod asks for a GPU: the load cannot be reached")
	}
	slices.SortFunc(byName, func(a, b int) int { return strings.Compare(pods[a].Name, pods[b].Name) })
	order := slices.Clone(byName)
	draw := rand.New(rand.NewSource(o.Seed))
	draw.Int() // as the simulator does, for its log
	draw.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	load := o.Load * float64(capacity)
	if float64(sum) > load {
		for float64(sum) > load {
			i := draw.Intn(len(order))
			sum -= pods[order[i]].gpus()
			order = slices.Delete(order, i, i+1)
		}
	} else if float64(sum) < load {
		for {
			i := byName[draw.Intn(len(byName))]
			if float64(sum+pods[i].perGPU()) > load {
				break
			}
			sum += pods[i].gpus()
			order = append(order, i)
		}
	}
	for range skippedDraws {
		draw.Int()
	}
	nodesByName := slices.Clone(ns)
	slices.SortFunc(nodesByName, func(a, b *nodes.Node) int { return strings.Compare(string(a.ID), string(b.ID)) })
	ranked := make([]*nodes.Node, len(ns))
	for i, rank := range draw.Perm(len(ns)) {
		ranked[rank] = nodesByName[i]
	}
	return order, ranked, nil
}

// podPlacer finds the cheapest node for a pod. A placement changes one node, so the costs of all others, kept by
// shape, stay right until the policy's epoch ends.
type podPlacer struct {
	nodes   []*nodes.Node // the first of equals wins
	changes []int         // of each node
	pods    []Pod
	policy  placement.Policy
	epoch   uint64
	costs   map[podShape][]podCost
}

// podShape is what makes two pods cost the same everywhere.
type podShape struct {
	request nodes.Request
	models  string
}

type podCost struct {
	changes int // of the node when this was worked out, from 1
	cost    float64
	ok      bool
}

func newPodPlacer(ns []*nodes.Node, pods []Pod, policy placement.Policy) *podPlacer {
	p := &podPlacer{nodes: ns, changes: make([]int, len(ns)), pods: pods, policy: policy, costs: map[podShape][]podCost{}}
	for i := range p.changes {
		p.changes[i] = 1
	}
	return p
}

func (p *podPlacer) place(pod int) (nodes.ID, error) {
	if e := p.policy.Epoch(); e != p.epoch {
		p.epoch = e
		clear(p.costs)
	}
	asked := &p.pods[pod]
	shape := podShape{asked.Request, strings.Join(asked.Models, "|")}
	known := p.costs[shape]
	if known == nil {
		known = make([]podCost, len(p.nodes))
		p.costs[shape] = known
	}
	best, least := -1, math.Inf(1)
	for i, n := range p.nodes {
		c := &known[i]
		if c.changes != p.changes[i] {
			*c = podCost{changes: p.changes[i]}
			if asked.accepts(n) {
				c.cost, c.ok = p.policy.Cost(n, asked.Request)
			}
		}
		if c.ok && c.cost < least {
			best, least = i, c.cost
		}
	}
	if best < 0 {
		return "", nil
	}
	n := p.nodes[best]
	a, _, ok := p.policy.Place(n, asked.Request)
	if !ok {
		return "", fmt.Errorf("pod %s: the policy has a cost, but no place on node %s", asked.Name, n.ID)
	}
	if err := n.Take(a); err != nil {
		return "", fmt.Errorf("pod %s: %w", asked.Name, err)
	}
	p.changes[best]++
	return n.ID, nil
}

// shareCurve is the allocated share by arrived load.
type shareCurve struct {
	capacity, arrived, allocated nodes.Amount
	sum                          []float64 // by percent arrived
	count                        []int
}

func newShareCurve(capacity nodes.Amount, load float64) *shareCurve {
	n := int(math.Ceil(load*100)) + 1
	return &shareCurve{capacity: capacity, sum: make([]float64, n), count: make([]int, n)}
}

func (c *shareCurve) add(a nodes.Amount, placed bool) {
	c.arrived += a
	if placed {
		c.allocated += a
	}
	at := int(math.RoundToEven(100 * float64(c.arrived) / float64(c.capacity)))
	for at >= len(c.sum) {
		c.sum, c.count = append(c.sum, 0), append(c.count, 0)
	}
	c.sum[at] += c.share()
	c.count[at]++
}

func (c *shareCurve) share() float64 { return 100 * float64(c.allocated) / float64(c.capacity) }

func (c *shareCurve) shares() []float64 {
	out := make([]float64, len(c.sum))
	for i := range out {
		if c.count[i] > 0 {
			out[i] = c.sum[i] / float64(c.count[i])
		} else if i > 0 {
			out[i] = out[i-1]
		}
	}
	return out
}
