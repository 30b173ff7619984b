package engine_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/queue/engine"
)

// world is an engine with its store and its nodes, and what has been promised to users.
type world struct {
	t     *rapid.T
	e     *engine.Engine
	store *memory
	fleet *fleet
	ended chan error
	quit  context.CancelFunc

	acked  []queue.JobID
	tokens map[string]queue.JobID // user and token → the job answered first
	sent   []sentReport           // to be sent again
}

type sentReport struct {
	node nodes.ID
	r    queue.Report
}

var ctx = context.Background()

func (w *world) start(book *queue.Book) {
	w.e = engine.New(config(), w.store, w.fleet, book)
	if err := w.e.LoadBudgets(ctx, w.store); err != nil {
		w.t.Fatal(err)
	}
	var run context.Context
	run, w.quit = context.WithCancel(ctx)
	w.ended = make(chan error, 1)
	e, ended := w.e, w.ended
	go func() { ended <- e.Run(run) }()
	synctest.Wait()
}

func (w *world) stop() {
	w.quit()
	if err := <-w.ended; err != nil {
		w.t.Fatalf("Run gives %v", err)
	}
}

// TestWhateverHappens plays random submissions, commands, reports, losses of nodes, failures of the database and restarts
// of the daemon against the engine. At rest, after each step, the invariants of ARCHITECTURE.md hold; and when at last every
// node is there and ends what it runs, nothing is left that could have run.
func TestWhateverHappens(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var failed any
		synctest.Test(t, func(*testing.T) { // one bubble each: the time that passes in it is none of rapid's
			defer func() { failed = recover() }()
			whatever(r)
		})
		switch {
		case failed == nil:
		case fmt.Sprintf("%T", failed) == "rapid.invalidData": // not a failure: the shrinker went too far
			panic(failed)
		default:
			r.Fatalf("%v", failed)
		}
	})
}

func whatever(t *rapid.T) {
	w := &world{t: t, store: newMemory(), fleet: &fleet{nodes: map[nodes.ID]*daemon{}}, tokens: map[string]queue.JobID{}}
	modes := []string{"a=4,gpu=2", "a=4,gpu=2,mode=mps", "a=4,gpu=1,mig=3+1"}
	for _, line := range []string{one(t, modes, "modes"), "b=2,lic=1", "far=2,gpu=1"} {
		h := hello([]string{line})
		w.fleet.nodes[h.Node.ID] = &daemon{hello: h, attempts: map[string]*attempt{}}
	}
	w.start(queue.NewBook())
	defer func() { w.stop() }()
	for range 5 + uniform(t, 75, "steps") {
		w.step()
		w.store.rest()
		w.check()
	}
	w.finish()
}

func (w *world) step() {
	switch n := uniform(w.t, 100, "step"); {
	case n < 15:
		w.submit()
	case n < 60:
		w.act()
	case n < 70:
		w.control()
	case n < 85:
		w.comeAndGo()
	case n < 88:
		w.admin()
	case n < 95:
		time.Sleep(time.Duration(one(w.t, []int{1, 10, 70, 700}, "seconds")) * time.Second)
	case n < 98:
		w.store.fails([]string{one(w.t, []string{"fail", "ambiguous"}, "database"), one(w.t, []string{"fail", "ambiguous", ""}, "then")})
	default:
		w.restart()
	}
}

// uniform is a number below n. Rapid's own numbers are small ones by preference, so that what comes late in a list hardly
// ever happened; bits are fair.
func uniform(t *rapid.T, n int, label string) int {
	v := 0
	for _, bit := range rapid.SliceOfN(rapid.Bool(), 10, 10).Draw(t, label) {
		v *= 2
		if bit {
			v++
		}
	}
	return v * n >> 10
}

func one[T any](t *rapid.T, of []T, label string) T { return of[uniform(t, len(of), label)] }

func (w *world) submit() {
	words := []string{one(w.t, []string{"ada", "eve"}, "user")}
	for _, c := range []struct {
		odds  int
		words []string
	}{
		{4, []string{"rerun"}}, {8, []string{"hold"}}, {8, []string{"ti"}}, {10, []string{"excl"}}, {10, []string{"term=10m"}}, {10, []string{"begin=5m"}},
		{3, []string{"limit=5m", "limit=1h"}}, {3, []string{"fgpu=0.5", "fgpu=1", "fgpu=1.5", "fgpu=3"}}, {3, []string{"slots=2", "slots=5"}},
		{4, []string{"array=1-3", "array=1-4%2"}}, {4, []string{"queue=again", "queue=far", "queue=small", "queue=each"}},
		{3, []string{"token=x", "token=y"}}, {6, []string{"account=lab", "account=chem", "account=default"}}, {6, []string{"mem=1", "mem=2"}}, {9, []string{"pty"}},
	} {
		if uniform(w.t, c.odds, c.words[0]) == 0 {
			words = append(words, one(w.t, c.words, "word"))
		}
	}
	if len(w.acked) > 0 && uniform(w.t, 4, "depends") == 0 {
		cond := one(w.t, []string{"done(%d)", "ended(%d)", "exit(%d)", "!done(%d)"}, "condition")
		words = append(words, "w="+fmt.Sprintf(cond, one(w.t, w.acked, "job")))
	}
	if have := w.reservations(); len(have) > 0 && uniform(w.t, 3, "reserved") == 0 {
		words = append(words, "rsv="+one(w.t, have, "reservation"))
	}
	sub := submission(words)
	acc, err := w.e.Submit(ctx, sub)
	if err != nil {
		return // refused, which is the tables' business
	}
	if key := sub.Owner.User + "/" + sub.Token; sub.Token != "" {
		if first, ok := w.tokens[key]; ok && first != acc.Job && w.inBook(first) {
			w.t.Fatalf("token %s gave job %d and then %d", key, first, acc.Job)
		}
		w.tokens[key] = acc.Job
	}
	if !slices.Contains(w.acked, acc.Job) {
		w.acked = append(w.acked, acc.Job)
	}
}

func (w *world) inBook(id queue.JobID) (in bool) {
	w.e.View(func(v queue.View) { in = v.Book().Jobs[id] != nil })
	return in
}

// act lets one attempt of a connected node go on, and tell; or an old report be told again.
func (w *world) act() {
	node := w.drawNode()
	if len(w.sent) > 0 && uniform(w.t, 6, "again") == 0 {
		old := one(w.t, w.sent, "report")
		w.tell(old.node, old.r)
		return
	}
	has := w.fleet.list(node)
	if len(has) == 0 || !w.fleet.connected(node) {
		return
	}
	p := one(w.t, has, "attempt")
	word := ""
	switch p.state {
	case "accepted":
		word = one(w.t, []string{"began", "began", "began", "began", "ended:0", "ended:0", "failed:image", "failed:fence", "refused:2", "unfenceable:2"}, "begins")
	case "running":
		word = one(w.t, []string{"began", "ended:0", "ended:0", "ended:256", "lost", "stopped"}, "goes on")
	case "stopped":
		word = one(w.t, []string{"began", "resumed", "ended:9"}, "is stopped")
	case "ended":
		word = "ended:9," + string(p.verdict)
	}
	w.report(node, p, word)
}

// report changes an attempt as the word says, and tells it.
func (w *world) report(node nodes.ID, p *attempt, word string) {
	w.fleet.mu.Lock()
	switch word {
	case "began":
		if p.state == "accepted" {
			p.state = "running"
		}
	case "stopped":
		p.state = "stopped"
	case "resumed":
		p.state = "running"
	default:
		delete(w.fleet.nodes[node].attempts, p.id.AttemptKey(p.number))
	}
	w.fleet.mu.Unlock()
	w.tell(node, report(p.id, p.number, word))
}

func (w *world) tell(node nodes.ID, r queue.Report) {
	if r.Kind != queue.ReportStopped { // told again, that would be another stop
		w.sent = append(w.sent, sentReport{node, r})
	}
	if err := w.e.NodeReport(ctx, node, r); err != nil {
		w.t.Fatalf("report %+v: %v", r, err)
	}
}

func (w *world) drawNode() nodes.ID {
	return one(w.t, []nodes.ID{"a", "b", "far"}, "node")
}

func (w *world) control() {
	if len(w.acked) == 0 {
		return
	}
	verb := one(w.t, []string{"kill", "kill force", "kill done", "stop", "resume", "requeue", "requeue state=EXIT", "requeue state=DONE hold",
		"top", "bottom", "switch to=again", "switch to=small", "mod -W=7", "mod -r", "extend +3m", "extend +2h", "signal sig=USR1", "signal sig=TERM", "mod -Jn"}, "verb")
	id := fmt.Sprint(one(w.t, w.acked, "job"))
	if uniform(w.t, 5, "element") == 0 {
		id += "[2]"
	}
	words := append([]string{"root", id}, strings.Fields(verb)[1:]...)
	if strings.HasPrefix(verb, "extend") {
		extend(w.e, words)
		return
	}
	if _, err := w.e.Control(ctx, control(strings.Fields(verb)[0], words)); err != nil {
		w.t.Fatalf("%s %s: %v", verb, id, err)
	}
}

func (w *world) admin() {
	if uniform(w.t, 4, "policy") == 0 {
		w.setPolicy(policies[uniform(w.t, len(policies), "text")])
		return
	}
	if uniform(w.t, 2, "reservation") == 0 {
		w.reserve()
		return
	}
	op := one(w.t, []string{"hclose", "hopen", "qinact", "qact"}, "op")
	name := "normal"
	if op[0] == 'h' {
		name = string(w.drawNode())
	}
	if _, err := w.e.Admin(ctx, queue.AdminCommand{Op: op, Names: []string{name}, By: identity("root")}); err != nil {
		w.t.Fatal(err)
	}
}

// reserve makes a reservation of the next hour, or deletes one.
func (w *world) reserve() {
	if have := w.reservations(); len(have) > 0 && uniform(w.t, 3, "delete") == 0 {
		del := queue.AdminCommand{Op: "rsvdel", Names: []string{one(w.t, have, "reservation")}, By: identity("root")}
		if _, err := w.e.Admin(ctx, del); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	words := "root -u ada -n " + one(w.t, []string{"1", "2", "9"}, "slots") + " -m " + string(w.drawNode()) +
		" -b +" + one(w.t, []string{"0", "5", "20"}, "begin") + " -e +" + one(w.t, []string{"1", "15"}, "length") + one(w.t, []string{"", " -gpu fgpu=1"}, "gpu")
	_, _ = w.e.AddReservation(ctx, reservationRequest(strings.Fields(words))) // refusals are the tables' business
}

func (w *world) reservations() (ids []string) {
	w.e.View(func(v queue.View) { ids = slices.Sorted(maps.Keys(v.Book().Reservations)) })
	return ids
}

// comeAndGo cuts a node off, lets the engine notice, or lets the node come back, with or without what it had.
func (w *world) comeAndGo() {
	node := w.drawNode()
	switch uniform(w.t, 5, "way") {
	case 0:
		w.fleet.cut(node)
	case 1:
		w.fleet.cut(node)
		if err := w.e.NodeGone(ctx, node, "no heartbeat"); err != nil {
			w.t.Fatal(err)
		}
	case 2:
		for _, p := range w.fleet.list(node) {
			if rapid.Bool().Draw(w.t, "forgets") {
				w.fleet.forget(node, p)
			}
		}
		w.join(node)
	default:
		w.join(node)
	}
}

func (w *world) join(node nodes.ID) {
	if err := w.e.NodeJoined(ctx, w.fleet.connect(node)); err != nil {
		w.t.Fatal(err)
	}
}

// restart ends the daemon and begins another one on what is stored. Every node loses its connection.
func (w *world) restart() {
	w.store.fails(nil)
	w.stop()
	w.agree()
	book, err := w.store.restore()
	if err != nil {
		w.t.Fatal(err)
	}
	for id := range w.fleet.nodes {
		w.fleet.cut(id)
	}
	w.start(book)
}

func (w *world) agree() {
	if err := agrees(w.e, w.store); err != nil {
		w.t.Fatal(err)
	}
}

// check is the invariants at rest.
func (w *world) check() {
	w.e.View(func(v queue.View) {
		if err := capacity(v.Book()); err != nil {
			w.t.Fatal(err)
		}
		if err := w.fleet.mismatch(v.Book()); err != nil {
			w.t.Fatal(err)
		}
	})
	if err := w.e.CheckHoldings(); err != nil {
		w.t.Fatal(err)
	}
	if err := w.e.CheckBudgets(w.store); err != nil {
		w.t.Fatal(err)
	}
	for _, check := range []func([]queue.Event) error{history, keptLimits, keptQueues, keptBudgets} {
		if err := check(w.store.log()); err != nil {
			w.t.Fatal(err)
		}
	}
	stored := map[queue.JobID]bool{}
	for _, ev := range w.store.log() {
		stored[ev.Job] = true
	}
	for _, id := range w.acked {
		if !stored[id] {
			w.t.Fatalf("job %d was acknowledged and is not stored", id)
		}
	}
}

// capacity adds up what live attempts hold, not trusting the nodes' own counts.
func capacity(b *queue.Book) error {
	slots, held, gpus := map[nodes.ID]int{}, map[nodes.ID]int{}, map[string]nodes.Amount{}
	users := map[string][]string{} // of each GPU, one for each slice
	var err error
	b.Each(func(j *queue.Job) bool {
		live, ended := 0, 0
		for i := range j.Elements {
			el := &j.Elements[i]
			if el.State.Final() {
				ended++
			}
			if el.State.Final() != (el.Result != nil) {
				err = fmt.Errorf("%d[%d] is %s with the result %+v", j.ID, el.Index, el.State, el.Result)
			}
			if !el.State.Live() {
				continue
			}
			live++
			total := 0
			for _, a := range el.Attempt.Alloc {
				slots[a.Node] += a.Slots
				held[a.Node]++
				total += a.Slots
				for _, s := range a.Slices {
					gpus[s.UUID] += s.Amount
					users[s.UUID] = append(users[s.UUID], j.Owner.User)
				}
			}
		}
		if live != j.Live() || ended != j.Ended() {
			err = fmt.Errorf("job %d counts %d live and %d ended, it has %d and %d", j.ID, j.Live(), j.Ended(), live, ended)
		}
		return err == nil
	})
	for id, n := range b.Nodes {
		if slots[id] != n.UsedSlots || held[id] != n.Holders || slots[id] > n.Slots || held[id] != len(b.On(id)) {
			return fmt.Errorf("node %s: %d slots by %d, it counts %+v", id, slots[id], held[id], n)
		}
		for _, g := range n.GPUs {
			if gpus[g.UUID] != g.Used || g.Used > g.Capacity {
				return fmt.Errorf("node %s: %s fGPU, it counts %+v", id, gpus[g.UUID], g)
			}
			on := users[g.UUID]
			if g.Mode == nodes.ModeMIG && len(on) > 1 || g.Mode == nodes.ModeMPS && len(slices.Compact(slices.Sorted(slices.Values(on)))) > 1 {
				return fmt.Errorf("node %s: %q share %+v", id, on, g)
			}
		}
	}
	return err
}

// history checks the stored events: one live attempt an element, each charged once, and nothing after the end but a
// requeue that somebody asked for.
func history(events []queue.Event) error {
	type life struct {
		live    int
		final   bool
		charges map[int]int
		started *queue.Event
	}
	lives := map[queue.ElementID]*life{}
	for i, ev := range events {
		if ev.Seq != int64(i+1) {
			return fmt.Errorf("event %d is the %d. stored", ev.Seq, i+1)
		}
		id := queue.ElementID{Job: ev.Job, Index: ev.Index}
		l := lives[id]
		if l == nil {
			l = &life{charges: map[int]int{}}
			lives[id] = l
		}
		wrong := func(what string) error { return fmt.Errorf("event %d, %s of %s: %s", ev.Seq, ev.Body.Kind(), id, what) }
		over := func(attempt int, c *queue.Charge) error {
			if attempt != l.live || (c != nil) != (attempt != 0) {
				return wrong(fmt.Sprintf("attempt %d with charge %+v, live is %d", attempt, c, l.live))
			}
			if l.charges[attempt]++; attempt != 0 && l.charges[attempt] > 1 {
				return wrong("charged again")
			}
			if attempt != 0 {
				if what := mischarged(l.started, &ev, c); what != "" {
					return wrong(what)
				}
			}
			l.live = 0
			return nil
		}
		var err error
		switch body := ev.Body.(type) {
		case *queue.Started:
			if l.live != 0 || l.final || l.charges[body.Attempt] > 0 {
				err = wrong("it is live, has ended, or had that attempt")
			}
			l.live, l.started = body.Attempt, &ev
		case *queue.Ended:
			if l.final {
				err = wrong("it has ended")
			} else {
				err = over(body.Attempt, body.Charge)
			}
			l.final = true
		case *queue.Requeued:
			if l.final && ev.By == "" {
				err = wrong("nobody asked for it")
			} else if !l.final {
				err = over(body.Attempt, body.Charge)
			}
			l.final = false
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mischarged says what is wrong with the charge of an attempt from its start to its end: it must be what the allocation held.
func mischarged(start, end *queue.Event, c *queue.Charge) string {
	var slots int
	var memory int64
	var fgpu nodes.Amount
	body := start.Body.(*queue.Started)
	for _, a := range body.Alloc {
		slots, memory, fgpu = slots+a.Slots, memory+a.Memory, fgpu+a.FGPU()
	}
	held := end.At.UnixMilli() - start.At.UnixMilli()
	outcome := map[bool]queue.Ending{true: queue.EndingDone, false: queue.EndingExit}
	switch e, ended := end.Body.(*queue.Ended); {
	case c.Slots != slots || c.Memory != memory || c.FGPU != fgpu || len(c.Nodes.Names()) != len(body.Alloc):
		return fmt.Sprintf("held %+v, charged %+v", body.Alloc, c)
	case c.Millis() != held || c.SlotMillis() != int64(slots)*held || c.FGPUMillis() != int64(fgpu)*held || !c.Ended.Equal(end.At.Truncate(time.Millisecond)):
		return fmt.Sprintf("held for %d ms, charged %+v", held, c)
	case c.Suspended < 0 || c.Suspended.Milliseconds() > held || c.Waited < 0:
		return fmt.Sprintf("suspended %s of %d ms, waited %s", c.Suspended, held, c.Waited)
	case c.Account != body.Account || c.Account == "" || c.User == "" || c.Queue == "":
		return fmt.Sprintf("started for account %q, charged %+v", body.Account, c)
	case ended && c.Outcome != outcome[e.Done], !ended && !slices.Contains([]queue.Ending{queue.EndingRequeued, queue.EndingFailed, queue.EndingLost}, c.Outcome):
		return fmt.Sprintf("outcome %q", c.Outcome)
	}
	return ""
}

// finish lets everything run to its end: what then still waits must have a reason that no resource can cure.
func (w *world) finish() {
	w.store.fails(nil)
	w.setPolicy("")
	for _, op := range []queue.AdminCommand{{Op: "hopen", Names: []string{"all"}}, {Op: "qact", Names: []string{"normal"}}} {
		op.By = identity("root")
		if _, err := w.e.Admin(ctx, op); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, node := range []nodes.ID{"a", "b", "far"} {
		w.join(node)
	}
	w.store.rest()
	w.check()
	left := ""
	for range 60 {
		if _, err := w.e.Control(ctx, control("resume", []string{"root", "0", "user=all"})); err != nil {
			w.t.Fatal(err)
		}
		for _, node := range []nodes.ID{"a", "b", "far"} {
			for _, p := range w.fleet.list(node) {
				w.report(node, p, "ended:0")
			}
		}
		time.Sleep(2 * time.Minute)
		w.store.rest()
		w.check()
		if left = w.left(); left == "" {
			break
		}
	}
	if left != "" {
		w.t.Fatalf("with nothing in its way, this does not end: %s", left)
	}
	w.agree()
}

// left names what is live, or waits for something that should have come.
func (w *world) left() (out string) {
	w.e.View(func(v queue.View) {
		v.Book().Each(func(j *queue.Job) bool {
			for i := range j.Elements {
				el := &j.Elements[i]
				if el.State.Final() {
					continue
				}
				reasons, _ := v.Why(j, el)
				switch {
				case el.State == queue.Pend && len(reasons) > 0 && reasons[0].Kind == queue.ReasonDependency && waitsForUnfinished(v.Book(), j):
				case el.State == queue.Pend && len(reasons) > 0 && reasons[0].Kind == queue.ReasonReservation && v.Book().Reservations[j.Spec.Reservation] == nil:
				case el.State == queue.Pend && len(reasons) > 0 && slices.Contains([]queue.ReasonKind{queue.ReasonNoHost, queue.ReasonNotSelected, queue.ReasonNever}, reasons[0].Kind):
				default:
					out += fmt.Sprintf("%s is %s %+v; ", j.ElementID(el.Index), el.State, reasons)
				}
			}
			return true
		})
	})
	return out
}

// waitsForUnfinished says that what j waits for waits itself.
func waitsForUnfinished(b *queue.Book, j *queue.Job) bool {
	return slices.ContainsFunc(j.Condition().Refs(), func(r queue.JobRef) bool { return b.Jobs[r.Job] != nil && !b.Jobs[r.Job].Finished() })
}
