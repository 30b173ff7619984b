package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/queue/engine"
	"fairslice/queue/queuetest"
)

// A scenario is a list of lines, each done when everything that follows from the one before has been:
//
//	join a=4,lic=1,gpu=200 1#1:running     a node registers, with the attempts it has
//	join b=4,gpu=2,mode=mps,unfenced=why    with the mode of its GPUs, and why they are unfenced; also mig=3+1: sevenths
//	gone a                                  its heartbeats stop
//	submit ada w=done(1) array=1-3%2        also: slots limit queue hold rerun begin term ti name token fgpu excl prio rsv
//	kill ada 1 2[3] force done              also stop resume requeue switch mod signal top bottom; ids first
//	report a 1#1 began                      also stopped resumed ended:STATUS failed:CODE refused:EXIT unfenceable:EXIT lost
//	admin root hclose a
//	reserve root -u ada -n 1 -m a -b 1:00 -e 2:00
//	policy root 0 user=ada,running=2        from version 0; items are separated by blanks, words by commas; "dry" in front
//	extend ada 1 +30m                       bextend; also 2h: the whole run limit
//	reason 1                                why it waits, in words
//	states                                  of all elements: "1:RUN 2[1]:PEND"
//	budget ada lab                          what bbudget tells a user: "lab 1.00 spent 0.50 reserved 0.50 left of 2"; root sees all
//	sleep 1h
//	show 1 | why 1 | hub | jobs | events 1
//	charged 1                               what its attempts were charged: "2: 60 slot-s 30 fGPU-s"
//	ledger 1                                each charge: "1m0s, suspended 10s, waited 5s: exit TERM_OWNER"
//	restart                                 the daemon ends, and another one begins on what is stored
//	db fail,ambiguous                       what becomes of the next commits
//
// and after " = " what it must say. A line without it must not fail.
func play(t *testing.T, name, script string) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t)
			for line := range strings.Lines(script) {
				line = strings.TrimSpace(line)
				if line == "" {
					continue
				}
				do, want, said := strings.Cut(line, " =")
				got, ok := s.do(strings.Fields(do))
				s.store.rest()
				if want = strings.TrimSpace(want); said && got != want || !said && !ok {
					t.Errorf("%s\n got  %q\n want %q", do, got, want)
				}
			}
			s.stop()
			s.checkStored()
		})
	})
}

type site struct {
	t     *testing.T
	e     *engine.Engine
	store *memory
	hub   *hub
	ended chan error
	quit  context.CancelFunc
}

func config() engine.Config {
	return engine.Config{
		Cluster: "test", DefaultQueue: "normal", MaxArray: 100, CleanPeriod: time.Hour, RerunAfter: time.Minute, MemoryUnit: 1 << 20,
		Queues: []engine.Queue{
			{Name: "normal", Priority: 30, Exclusive: true, Unfenced: true}, {Name: "short", Priority: 40, MaxRunLimit: time.Hour, DefaultRunLimit: 10 * time.Minute},
			{Name: "own", Users: []string{"eve"}}, {Name: "small", MaxSlots: 2}, {Name: "each", UserSlots: 1},
			{Name: "far", Hosts: []string{"far"}}, {Name: "again", Rerunnable: true, Interactive: true},
			{Name: "boxed", Container: "required"}, {Name: "bare", Container: "never"},
		},
		Images:      map[string]string{"base:latest": "/images/base.sif"},
		Consumables: []string{"lic"}, GPUCapacity: func(string) nodes.Amount { return 200 },
		Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Now().UTC() },
		// No timer while the book is locked: synctest's clock stands still as long as somebody waits for a lock.
		Pause: func(context.Context, time.Duration) {},
	}
}

func newSite(t *testing.T) *site { return newSiteOn(t, newMemory(), queue.NewBook(), config()) }

func newSiteOn(t *testing.T, store *memory, book *queue.Book, cfg engine.Config) *site {
	s := &site{t: t, store: store, hub: &hub{away: map[nodes.ID]bool{}}, ended: make(chan error, 1)}
	s.e = engine.New(cfg, s.store, s.hub, book)
	if err := s.e.LoadBudgets(context.Background(), s.store); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, s.quit = context.WithCancel(context.Background())
	go func() { s.ended <- s.e.Run(ctx) }()
	synctest.Wait()
	return s
}

// stop ends the engine; the goroutines that it leaves behind are a deadlock that synctest reports.
func (s *site) stop() error {
	s.quit()
	synctest.Wait()
	select {
	case err := <-s.ended:
		s.ended <- err
		return err
	default:
		s.t.Error("the engine has not stopped")
		return nil
	}
}

// checkStored says where the book, the replay of the stored events and the stored rows differ.
func (s *site) checkStored() {
	s.t.Helper()
	if err := agrees(s.e, s.store); err != nil {
		s.t.Error(err)
	}
}

func agrees(e *engine.Engine, store *memory) error {
	want := ""
	e.View(func(v queue.View) { want = queuetest.Describe(v.Book()) })
	replayed, err := queuetest.Replay(store.log())
	if err != nil {
		return err
	}
	restored, err := store.restore()
	if err != nil {
		return err
	}
	for what, b := range map[string]*queue.Book{"replayed": replayed, "restored": restored} {
		if d := queuetest.Diff(want, queuetest.Describe(b)); d != "" {
			return fmt.Errorf("%s the book differs: %s", what, d)
		}
	}
	return nil
}

func (s *site) do(words []string) (string, bool) {
	ctx := context.Background()
	switch verb, args := words[0], words[1:]; verb {
	case "join":
		return say(s.e.NodeJoined(ctx, hello(args)))
	case "gone":
		return say(s.e.NodeGone(ctx, nodes.ID(args[0]), "no heartbeat"))
	case "submit":
		acc, err := s.e.Submit(ctx, submission(args))
		if err != nil {
			return err.Error(), false
		}
		return fmt.Sprintf("%d %s", acc.Job, acc.Queue), true
	case "report":
		id, attempt := attemptOf(args[1])
		return say(s.e.NodeReport(ctx, nodes.ID(args[0]), report(id, attempt, args[2])))
	case "admin":
		out, err := s.e.Admin(ctx, queue.AdminCommand{Op: args[1], Names: args[2:], By: identity(args[0])})
		return outcomes(out, err)
	case "reserve":
		return s.reserve(args)
	case "policy":
		return s.policy(args)
	case "extend":
		return extend(s.e, args)
	case "reason":
		return s.reason(args[0]), true
	case "states":
		return s.states(), true
	case "budget":
		return s.budget(args)
	case "sleep":
		d, _ := time.ParseDuration(args[0])
		time.Sleep(d)
		return "", true
	case "show":
		return s.show(args[0]), true
	case "why":
		return s.why(args[0]), true
	case "hub":
		return strings.Join(s.hub.take(), "; "), true
	case "jobs":
		return s.jobs(), true
	case "events":
		return s.events(args[0]), true
	case "charged":
		return s.charged(args[0]), true
	case "ledger":
		return s.ledger(args[0]), true
	case "restart":
		return s.restart()
	case "db":
		s.store.fails(strings.Split(args[0], ","))
		return "", true
	case "commits":
		return strconv.Itoa(s.store.committed()), true
	default:
		out, err := s.e.Control(ctx, control(verb, args))
		return outcomes(out, err)
	}
}

func say(err error) (string, bool) {
	if err != nil {
		return err.Error(), false
	}
	return "", true
}

func outcomes(out []queue.Outcome, err error) (string, bool) {
	if err != nil {
		return err.Error(), false
	}
	var lines []string
	ok := true
	for _, o := range out {
		line := o.Text
		if !o.OK {
			line, ok = "! "+line, false
		}
		lines = append(lines, line)
	}
	return strings.TrimSpace(strings.Join(lines, "; ")), ok
}

func identity(user string) queue.Identity {
	return queue.Identity{User: user, Home: "/home/" + user, Admin: user == "root"}
}

func atoi(s string) int { n, _ := strconv.Atoi(s); return n }

func hello(args []string) queue.Hello {
	h := queue.Hello{}
	n := &h.Node
	for i, item := range strings.Split(args[0], ",") {
		key, value, _ := strings.Cut(item, "=")
		switch {
		case i == 0:
			n.ID, n.Slots, n.Memory = nodes.ID(key), atoi(value), 64<<30
		case key == "lic":
			n.Consumables = nodes.Consumables("lic=" + value)
		case key == "gpu":
			for g := range atoi(value) {
				n.GPUs = append(n.GPUs, nodes.GPU{Index: g, UUID: fmt.Sprintf("%s-%d", n.ID, g), Memory: 8 << 30})
			}
		case key == "mode":
			for g := range n.GPUs {
				n.GPUs[g].Mode = nodes.Mode(value)
			}
		case key == "mig": // a GPU in instances of so many sevenths
			for sevenths := range strings.SplitSeq(value, "+") {
				i := len(n.GPUs)
				n.GPUs = append(n.GPUs, nodes.GPU{Index: i, UUID: fmt.Sprintf("%s-%d", n.ID, i), Memory: int64(atoi(sevenths)) << 30,
					Mode: nodes.ModeMIG, Parent: "GPU", Fraction: 10_000 * atoi(sevenths) / 7})
			}
		case key == "unfenced":
			for g := range n.GPUs {
				n.GPUs[g].Unfenced = value
			}
		}
	}
	for _, w := range args[1:] {
		name, state, _ := strings.Cut(w, ":")
		id, attempt := attemptOf(name)
		h.Attempts = append(h.Attempts, queue.AttemptState{ID: id, Attempt: attempt, State: state})
	}
	return h
}

func elementOf(s string) queue.ElementID {
	job, index, _ := strings.Cut(strings.TrimSuffix(s, "]"), "[")
	return queue.ElementID{Job: queue.JobID(atoi(job)), Index: atoi(index)}
}

func attemptOf(s string) (queue.ElementID, int) {
	id, attempt, _ := strings.Cut(s, "#")
	return elementOf(id), atoi(attempt)
}

func submission(args []string) queue.Submission {
	s := &queue.Spec{Command: "true", SubCWD: "/home/" + args[0]}
	sub := queue.Submission{Spec: s, Owner: identity(args[0]), Script: []byte("true\n"), Env: [][]byte{[]byte("A=1")}}
	for _, w := range args[1:] {
		key, value, _ := strings.Cut(w, "=")
		after, _ := time.ParseDuration(value)
		switch key {
		case "slots":
			s.MinSlots = atoi(value)
		case "limit":
			s.RunLimit = after
		case "queue":
			s.Queue = strings.ReplaceAll(value, "+", " ")
		case "hold":
			s.Hold = true
		case "rerun":
			s.Rerunnable = true
		case "begin":
			s.Begin = time.Now().Add(after).UTC()
		case "term":
			s.Terminate = time.Now().Add(after).UTC()
		case "ti":
			s.TermOrphan = true
		case "name":
			s.Name = value
		case "token":
			sub.Token = value
		case "w":
			s.Depend = value
		case "fgpu":
			s.Resources.FGPU, _ = nodes.ParseAmount(value)
		case "excl":
			s.Exclusive = true
		case "rsv":
			s.Reservation = value
		case "account":
			s.Account = value
		case "gpus":
			s.GPURequest = &queue.GPUOption{Num: atoi(value)}
		case "mem":
			s.Resources.Memory = int64(atoi(value)) << 30
		case "pty":
			s.Interactive = queue.Pty
		case "image":
			s.Image = value
		case "prio":
			s.Priority = atoi(value)
		case "array":
			_, s.Array, _ = queue.ParseJobName("["+strings.Replace(value, "%", "]%", 1)+map[bool]string{false: "]"}[strings.Contains(value, "%")], 1000)
		default:
			panic("no such word: " + w)
		}
	}
	return sub
}

func report(id queue.ElementID, attempt int, word string) queue.Report {
	r := queue.Report{ID: id, Attempt: attempt, At: time.Now().UTC()}
	kind, value, _ := strings.Cut(word, ":")
	switch kind {
	case "began":
		r.Kind, r.Began = queue.ReportBegan, &queue.Began{Pid: 7}
	case "stopped", "resumed":
		r.Kind, r.Stopped = queue.ReportStopped, kind == "stopped"
	case "ended":
		r.Kind, r.Status, r.Ran = queue.ReportEnded, atoi(value), r.At
		if status, verdict, ok := strings.Cut(value, ","); ok {
			r.Status, r.Verdict = atoi(status), queue.Verdict(verdict)
		}
	case "lost":
		r.Kind, r.Lost, r.Status, r.Ran, r.Detail = queue.ReportEnded, true, queue.NoStatus, r.At, "rebooted"
	case "failed":
		r.Kind, r.Code, r.Detail = queue.ReportFailed, value, "no luck"
	case "unfenceable":
		r.Kind, r.JobFault, r.Code, r.ExitCode, r.Detail = queue.ReportFailed, true, "fence", atoi(value), "a static image"
	case "refused":
		r.Kind, r.JobFault, r.ExitCode, r.Verdict = queue.ReportFailed, true, atoi(value), queue.TermCWDNotExist
	default:
		panic("no such report: " + word)
	}
	return r
}

func control(verb string, args []string) queue.Control {
	c := queue.Control{Op: queue.Op(verb), By: identity(args[0])}
	if verb == "mod" {
		c.Op = queue.OpModify
	}
	for _, w := range args[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch {
		case strings.HasPrefix(w, "-"): // of bmod: -W=5
			g := queue.Given{Name: key[1:]}
			if value != "" {
				g.Values = []string{value}
			}
			c.Options = append(c.Options, g)
		case key == "force":
			c.Force = true
		case key == "done":
			c.AsDone = true
		case key == "hold":
			c.Hold = true
		case key == "latest":
			c.Latest = true
		case key == "to":
			c.Queue = value
		case key == "sig":
			c.Signal = value
		case key == "pos":
			c.Position = atoi(value)
		case key == "state":
			c.Select.States = append(c.Select.States, queue.State(value))
		case key == "name":
			c.Select.Name = value
		case key == "user":
			c.Select.User = value
		default:
			c.Select.IDs = append(c.Select.IDs, w)
		}
	}
	return c
}

// show is the state of a job's elements: "RUN a#1", "EXIT 137 TERM_OWNER", "1:RUN a#1 2:PEND".
func (s *site) show(id string) (out string) {
	want := elementOf(id)
	s.e.View(func(v queue.View) {
		j := v.Book().Jobs[want.Job]
		if j == nil {
			out = "gone"
			return
		}
		var words []string
		for i := range j.Elements {
			el := &j.Elements[i]
			if want.Index != 0 && el.Index != want.Index {
				continue
			}
			w := string(el.State)
			if el.Index > 0 && want.Index == 0 {
				w = fmt.Sprintf("%d:%s", el.Index, w)
			}
			if el.State.Live() {
				w += fmt.Sprintf(" %s#%d", el.Attempt.Alloc[0].Node, el.Attempt.Number)
			}
			if el.Result != nil {
				w += fmt.Sprintf(" %d", el.Result.ExitCode())
				if el.Result.Verdict != "" {
					w += " " + string(el.Result.Verdict)
				}
			}
			words = append(words, w)
		}
		out = strings.Join(words, " ")
	})
	return out
}

func (s *site) why(id string) (out string) {
	s.e.View(func(v queue.View) {
		j, el := v.Book().Find(elementOf(id))
		if el == nil {
			out = "gone"
			return
		}
		reasons, expected := v.Why(j, el)
		var kinds []string
		for _, r := range reasons {
			kinds = append(kinds, string(r.Kind))
		}
		out = strings.Join(kinds, ",")
		if !expected.IsZero() {
			out += " ~" + time.Until(expected).Round(time.Minute).String()
		}
	})
	return out
}

// jobs lists what is in the book, those that wait in the order in which they would start.
func (s *site) jobs() (out string) {
	s.e.View(func(v queue.View) {
		var ids []string
		ahead := map[int]string{}
		v.Book().Each(func(j *queue.Job) bool {
			if el := &j.Elements[0]; el.State.Pending() {
				ahead[v.Ahead(j, el)] += fmt.Sprint(j.ID)
			} else {
				ids = append(ids, fmt.Sprint(j.ID))
			}
			return true
		})
		for i := range 1000 {
			if ahead[i] != "" {
				ids = append(ids, ahead[i])
			}
		}
		out = strings.Join(ids, " ")
	})
	return out
}

func (s *site) events(id string) string {
	var kinds []string
	for _, ev := range s.store.log() {
		if el := elementOf(id); ev.Job == el.Job && ev.Index == el.Index {
			kinds = append(kinds, string(ev.Body.Kind()))
		}
	}
	return strings.Join(kinds, " ")
}

// charges are those that the stored events have of an element.
func (s *site) charges(id string) (out []*queue.Charge) {
	for _, ev := range s.store.log() {
		if el := elementOf(id); ev.Job != el.Job || ev.Index != el.Index {
			continue
		}
		var c *queue.Charge
		switch body := ev.Body.(type) {
		case *queue.Ended:
			c = body.Charge
		case *queue.Requeued:
			c = body.Charge
		}
		if c != nil {
			out = append(out, c)
		}
	}
	return out
}

// charged sums up the charges of an element.
func (s *site) charged(id string) string {
	slots, fgpu := 0.0, 0.0
	all := s.charges(id)
	for _, c := range all {
		slots, fgpu = slots+c.SlotSeconds(), fgpu+c.FGPUSeconds()
	}
	if len(all) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d: %.0f slot-s %.0f fGPU-s", len(all), slots, fgpu)
}

// ledger shows the charges of an element one by one.
func (s *site) ledger(id string) string {
	var out []string
	for _, c := range s.charges(id) {
		line := fmt.Sprintf("%s, suspended %s, waited %s: %s %s", time.Duration(c.Millis())*time.Millisecond, c.Suspended, c.Waited, c.Outcome, c.Verdict)
		out = append(out, strings.TrimSpace(line))
	}
	if out == nil {
		return "nothing"
	}
	return strings.Join(out, "; ")
}

func (s *site) restart() (string, bool) {
	s.stop()
	s.checkStored()
	book, err := s.store.restore()
	if err != nil {
		return err.Error(), false
	}
	s.store.term++
	again := newSiteOn(s.t, s.store, book, config())
	s.e, s.hub, s.ended, s.quit = again.e, again.hub, again.ended, again.quit
	return "", true
}
