package backfill

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const gib = int64(1) << 30

// A case is a story of a cluster and what the planner must make of it. Statements stand on lines of their own or are
// divided by ";". The clock begins at 0, and stands still except for "at".
//
//	policy protected=2 order=sjf starts=9       also: candidates= looks=; without: EASY (1), fcfs
//	nodes a=4 b=2,mem=8,gpu=2x100,lic=1,down    slots, then GiB, GPUs of so many hundredths, licences, state
//	nodes c=4,gpu=1x100,mps d=4,mig=3+1         GPUs in ModeMPS; a GPU in instances of so many sevenths
//	limit u=4 v=2x                              slots at once under a limit; x: elements, m: bytes, g: hundredths of GPU
//	used ann=9                                  slot-hours that a user has had, for order=fairshare
//	window w a:2/0=50 10m-1h,25h-never          an advance reservation; "drop w" ends it
//	running 1 on a:4/0=50 b:2 ends 10m          slots on each, hundredths of GPU 0; without ends: never; also user= under=
//	job 2 slots=2,6 limit=1h n=3 under=u        a job is submitted, or several: "job 2-5"; the words are in shapeWords
//	at 10m                                      the clock goes there; what ends or is due meanwhile is played
//	end 2[1] | kill 3 | hold 3 | release 3      an element ends; a job's waiting elements vanish, or may not start
//	mod 3 prio=5 | top 3 | bottom 3             a job that waits is changed
//	close a | open a | fall a | rise a          also: join c=4, leave c, unfence a (its GPUs)
//
// What runs ends at its limit, or after runs=. Expectations are of two kinds. A row of lines without a time is all that a
// plan made now says:
//
//	= start 3 on b                              starts, in order; ":slots" on several nodes or of -n min,max, "/i" GPUs
//	= reserve 2 at 10m on a b                   promised starts
//	= wait 2 slots,memory ~10m                  kinds of reasons in order; ~ when it is expected
//	= bounded
//
// Lines with a time are together all starts of the story, which is then played until nothing more happens:
//
//	= 10m start 2 on a b                        or, wherever they are: = 10m start 2 3 4[1]
type scenario struct {
	t      *testing.T
	name   string
	policy Policy

	p    *Planner
	now  time.Time
	last *Plan // of now; nil when something has happened since

	real   map[nodes.ID]*nodes.Node // beside the planner's: what is really held
	ends   map[queue.ElementID]time.Time
	held   map[queue.ElementID]Running
	jobs   map[queue.JobID]*Pending // what waits of each
	order  []queue.JobID            // of submission
	runs   map[queue.JobID]time.Duration
	limits map[string]*Limit
	used   map[string]float64
	turns  []time.Time // of windows

	row    []string // expectations of the present plan
	rows   int      // how many were compared
	timed  []string
	starts []startAt
}

// startAt is a start with the time of its plan.
type startAt struct {
	at    time.Time
	start Start
}

// play plays a case, and compares. A wrong word in it ends the test.
func play(t *testing.T, name, text string) {
	t.Helper()
	c := run(t, name, text)
	if len(c.timed) == 0 && c.rows == 0 {
		c.fatal("nothing is expected")
	}
}

// run plays a case that may expect nothing.
func run(t *testing.T, name, text string) *scenario {
	t.Helper()
	c := &scenario{t: t, name: name, policy: Policy{Protected: 1}, now: noon, real: map[nodes.ID]*nodes.Node{},
		ends: map[queue.ElementID]time.Time{}, held: map[queue.ElementID]Running{}, jobs: map[queue.JobID]*Pending{},
		runs: map[queue.JobID]time.Duration{}, limits: map[string]*Limit{}, used: map[string]float64{}}
	for statement := range strings.SplitSeq(strings.ReplaceAll(text, "\n", ";"), ";") {
		if words := strings.Fields(statement); len(words) > 0 {
			c.do(words)
		}
	}
	c.checkRow()
	if len(c.timed) > 0 {
		c.advance(time.Time{})
		c.checkStarts()
	}
	return c
}

func (c *scenario) do(words []string) {
	verb, args := words[0], words[1:]
	if verb == "=" {
		if len(args) > 1 && args[1] == "start" {
			c.timed = append(c.timed, strings.Join(args, " "))
		} else {
			c.row = append(c.row, strings.Join(args, " "))
		}
		return
	}
	c.checkRow()
	if verb == "policy" {
		c.setPolicy(args)
		return
	}
	if c.p == nil {
		c.p = New(c.policy)
		c.p.Select = onHosts
		c.p.Share, c.p.Started = fairShareOf(c.used)
	}
	if len(args) == 0 {
		c.fatal("%s: of what?", verb)
	}
	if verb == "at" {
		c.advance(noon.Add(c.duration(args[0])))
		if args = args[1:]; len(args) > 0 {
			c.do(args)
		}
		return
	}
	c.last = nil
	c.event(verb, args)
}

// fairShareOf serves who has had least first, and counts at once who is served (openpbs#1661).
func fairShareOf(used map[string]float64) (share func(Claimant) float64, started func(Claimant, *queue.Shape, []nodes.Allocation)) {
	return func(who Claimant) float64 { return 1 / (1 + used[who.User]) },
		func(who Claimant, s *queue.Shape, _ []nodes.Allocation) {
			used[who.User] += float64(s.Slots) * s.RunLimit.Hours()
		}
}

func (c *scenario) fatal(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf(c.name+": "+format, args...)
}

func (c *scenario) event(verb string, args []string) {
	switch verb {
	case "nodes", "join":
		for _, w := range args {
			n := c.readNode(w)
			c.real[n.ID] = n
			c.p.PutNode(n.Clone())
		}
	case "limit":
		for _, w := range args {
			name, n, _ := strings.Cut(w, "=")
			l := &Limit{}
			for suffix, of := range map[string]Measure{"x": OfElements, "m": OfMemory, "g": OfFGPU} {
				if most, ok := strings.CutSuffix(n, suffix); ok {
					n, l.Of, l.Name = most, of, "limit "+name
				}
			}
			l.Max = c.number(n)
			c.limits[name] = l
		}
	case "used":
		for _, w := range args {
			user, n, _ := strings.Cut(w, "=")
			c.used[user] = float64(c.number(n))
		}
	case "window":
		c.window(args)
	case "drop":
		c.p.RemoveWindow(args[0])
	case "running":
		c.running(args)
	case "job":
		first, last, several := strings.Cut(args[0], "-")
		if !several {
			last = first
		}
		for id := c.number(first); id <= c.number(last); id++ {
			c.submit(queue.JobID(id), args[1:])
		}
	case "end":
		c.end(elementOf(c.t, args[0]))
	case "kill", "hold", "release", "mod", "top", "bottom":
		c.change(verb, args)
	case "close", "open", "fall", "rise", "leave", "unfence":
		c.node(verb, nodes.ID(args[0]))
	default:
		c.fatal("no such statement: %s", verb)
	}
}

var orders = map[string]Order{"fcfs": FCFS, "sjf": SJF, "xfactor": XFactor, "fairshare": FairShare, "responsive": Responsive,
	"weighted": Weighted{FairShare: 1, Age: 1, Guard: 24 * time.Hour}}

func (c *scenario) setPolicy(words []string) {
	if c.p != nil {
		c.fatal("the policy comes first")
	}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		order, known := orders[value]
		switch {
		case key == "protected" && value == "all":
			c.policy.Protected = All
		case key == "protected":
			c.policy.Protected = c.number(value)
		case key == "starts":
			c.policy.MaxStarts = c.number(value)
		case key == "looks":
			c.policy.MaxLooks = c.number(value)
		case key == "order" && known:
			c.policy.Order = order
		case key == "candidates" && known:
			c.policy.Candidates = order
		default:
			c.fatal("no such policy: %s", w)
		}
	}
}

func onHosts(n *nodes.Node, s *queue.Shape) bool {
	return s.Hosts == "" || slices.Contains(strings.Split(s.Hosts, ","), string(n.ID))
}

// change does to a waiting job what its user, or the engine for him, does.
func (c *scenario) change(verb string, args []string) {
	p := c.jobs[elementOf(c.t, args[0]).Job]
	if p == nil {
		c.fatal("%s %s: it does not wait", verb, args[0])
	}
	switch verb {
	case "kill":
		delete(c.jobs, p.Job)
		c.p.Remove(p.Job)
	case "hold":
		c.p.Remove(p.Job)
	case "release":
		c.add(p)
	case "mod":
		shape := *p.Shape
		p.Shape = &shape
		for _, w := range args[1:] {
			key, value, _ := strings.Cut(w, "=")
			c.shapeWord(p.Shape, key, value)
		}
		c.add(p)
	case "top":
		p.Position, p.Moved = -1, -1
		c.add(p)
	case "bottom":
		p.Position, p.Moved = 1, 1
		c.add(p)
	}
}

func (c *scenario) node(verb string, id nodes.ID) {
	n := c.real[id]
	if n == nil {
		c.fatal("%s %s: no such node", verb, id)
	}
	switch verb {
	case "close", "open":
		n.Closed = verb == "close"
	case "fall", "rise":
		n.Alive = verb == "rise"
	case "unfence":
		for i := range n.GPUs {
			n.GPUs[i].Unfenced = "the probe failed"
		}
	case "leave":
		delete(c.real, id)
		c.p.RemoveNode(id)
		return
	}
	c.p.PutNode(n.Clone())
}

// end ends an attempt.
func (c *scenario) end(id queue.ElementID) {
	r, ok := c.held[id]
	if !ok {
		c.fatal("end %s: it does not run", id)
	}
	for _, a := range r.Alloc {
		c.real[a.Node].Release(a)
	}
	delete(c.held, id)
	delete(c.ends, id)
	c.p.End(id, c.now)
}
