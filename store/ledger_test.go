package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/store"
	"fairslice/store/storetest"
)

const hourMillis = 3_600_000

// hourKey is the key of a row of usage_hours.
type hourKey struct {
	hour                 int64 // since 1970
	account, user, queue string
}

// held is what attempts held times milliseconds: time, slots, 1/100 fGPU, whole GPUs, MiB, licences.
type held [6]int64

// integral sums what is held over time, hour by hour. It knows allocations and the times of events, and no charges.
type integral struct {
	now   int64 // milliseconds since 1970
	live  map[queue.ElementID]holding
	hours map[hourKey]held
}

type holding struct {
	account, user, queue string
	amounts              held
}

// pass lets time pass, in whole milliseconds.
func (in *integral) pass(until time.Time) {
	to := until.UnixMilli()
	for in.now < to {
		hour := in.now / hourMillis
		next := min(to, (hour+1)*hourMillis)
		for _, h := range in.live {
			key := hourKey{hour, h.account, h.user, h.queue}
			sum := in.hours[key]
			for i := range sum {
				sum[i] += h.amounts[i] * (next - in.now)
			}
			in.hours[key] = sum
		}
		in.now = next
	}
}

// see takes an event.
func (in *integral) see(ev *queue.Event, jobs map[queue.JobID]*queue.Job) {
	in.pass(ev.At)
	id := queue.ElementID{Job: ev.Job, Index: ev.Index}
	switch body := ev.Body.(type) {
	case *queue.Started:
		h := holding{account: body.Account, user: jobs[ev.Job].Owner.User, queue: jobs[ev.Job].Queue, amounts: held{0: 1}}
		var bytes int64
		for _, a := range body.Alloc {
			h.amounts[1] += int64(a.Slots)
			bytes += a.Memory
			h.amounts[5] += a.Consumables.Map()["licence"]
			for _, s := range a.Slices {
				h.amounts[2] += int64(s.Amount)
				if s.Amount == 200 { // all that a GPU of node has
					h.amounts[3]++
				}
			}
		}
		h.amounts[4] = (bytes + 1<<20 - 1) >> 20
		in.live[id] = h
	case *queue.Ended, *queue.Requeued:
		delete(in.live, id)
	}
}

func (in *integral) total() (sum held) {
	for _, h := range in.hours {
		for i := range sum {
			sum[i] += h[i]
		}
	}
	return sum
}

// month plays random jobs on a simulated clock: they start on one or two nodes, are suspended, lost, found, requeued, and end.
type month struct {
	*writer
	rnd  *rand.Rand
	in   integral
	last queue.JobID
	ends map[queue.ElementID]bool // in this batch already
}

func newMonth(w *writer, seed uint64) *month {
	m := &month{writer: w, rnd: rand.New(rand.NewPCG(seed, 1)),
		in: integral{now: w.now.UnixMilli(), live: map[queue.ElementID]holding{}, hours: map[hourKey]held{}}}
	var join []queue.Event
	for i := range 6 {
		join = append(join, ev(0, 0, &queue.NodeJoined{Node: node(nodes.ID(fmt.Sprintf("n%d", i)))}))
	}
	m.commit(join...)
	return m
}

// commit makes events durable and shows them to the integral.
func (m *month) commit(events ...queue.Event) {
	m.t.Helper()
	b := m.batch(events...)
	if err := m.s.Commit(m.t.Context(), b); err != nil {
		m.t.Fatal(err)
	}
	for i := range b.Events {
		m.in.see(&b.Events[i], m.book.Jobs)
	}
}

// step lets some time pass, and then one to four things happen, each to another element.
func (m *month) step() {
	m.now = m.now.Add(time.Duration(m.rnd.ExpFloat64()*float64(25*time.Minute)) / 1000 * 1000)
	m.ends = map[queue.ElementID]bool{}
	var events []queue.Event
	for range 1 + m.rnd.IntN(4) {
		at := m.now.Add(time.Duration(len(events)+1) * 1001 * time.Microsecond) // as batch will say
		if e, ok := m.event(at, len(events) > 0); ok {
			events = append(events, e)
		}
	}
	if len(events) > 0 {
		m.commit(events...)
	}
}

// event is something that may happen. Of one batch at most one is a start, as room is looked for in the Book.
func (m *month) event(at time.Time, follows bool) (queue.Event, bool) {
	if m.rnd.IntN(3) == 0 {
		m.last++
		s := submitted("", nil)
		s.Owner.User, s.Queue = fmt.Sprint("user", m.rnd.IntN(4)), []string{"gpu", "long"}[m.rnd.IntN(2)]
		return ev(m.last, 0, s), true
	}
	var open []*queue.Job
	m.book.Each(func(j *queue.Job) bool {
		if !j.Finished() && !m.ends[j.ElementID(0)] {
			open = append(open, j)
		}
		return true
	})
	if len(open) == 0 {
		return queue.Event{}, false
	}
	j := open[m.rnd.IntN(len(open))]
	el := &j.Elements[0]
	m.ends[j.ElementID(0)] = true
	body := m.body(j, el, at, follows)
	return ev(j.ID, 0, body), body != nil
}

func (m *month) body(j *queue.Job, el *queue.Element, at time.Time, follows bool) queue.Body {
	roll := m.rnd.IntN(10)
	switch {
	case el.State == queue.Pend && roll == 0:
		return &queue.Ended{Result: queue.Result{Status: queue.NoStatus, Verdict: queue.TermOwner, At: at}} // cancelled: no charge
	case el.State == queue.Pend && roll == 1:
		return &queue.Suspended{}
	case el.State == queue.Pend && follows:
		return nil
	case el.State == queue.Pend:
		return m.start(el)
	case el.State == queue.PSusp:
		return &queue.Resumed{}
	case roll < 4:
		return m.end(j, el, at)
	case roll < 6:
		return &queue.Requeued{Attempt: el.Attempt.Number, Why: "brequeue", Charge: m.charge(j, el, at, queue.EndingRequeued)}
	case el.State == queue.Run && roll < 8:
		return &queue.Suspended{}
	case el.State.Suspended() && roll < 8:
		return &queue.Resumed{}
	case el.State == queue.Unkwn:
		return &queue.Found{State: []queue.State{queue.Run, queue.USusp}[m.rnd.IntN(2)]}
	}
	return &queue.Lost{}
}

func (m *month) start(el *queue.Element) queue.Body {
	var out []nodes.Allocation
	for _, id := range []nodes.ID{"n0", "n1", "n2", "n3", "n4", "n5"} {
		n := m.book.Nodes[id]
		free := n.Slots - n.UsedSlots
		if free == 0 || m.rnd.IntN(2) == 0 {
			continue
		}
		a := nodes.Allocation{Node: id, Slots: 1 + m.rnd.IntN(free), Memory: m.rnd.Int64N((n.Memory-n.UsedMemory)/2) + 1}
		if n.UsedConsumables.Map()["licence"] < 3 && m.rnd.IntN(2) == 0 {
			a.Consumables = "licence=1"
		}
		for g := range n.GPUs {
			gpu := &n.GPUs[g]
			if room := gpu.Capacity - gpu.Used; room > 0 && m.rnd.IntN(2) == 0 {
				s := nodes.Slice{UUID: gpu.UUID, Index: g, Amount: room, Memory: 1, SMShare: int(room) * 50, Mode: nodes.ModeShim}
				if m.rnd.IntN(2) == 0 {
					s.Amount = 1 + nodes.Amount(m.rnd.IntN(int(room)))
					s.SMShare = int(s.Amount) * 50
				}
				a.Slices = append(a.Slices, s)
			}
		}
		if out = append(out, a); len(out) == 2 || m.rnd.IntN(2) == 0 {
			break
		}
	}
	if out == nil {
		return nil
	}
	return &queue.Started{Attempt: el.Attempts + 1, Alloc: out, Account: []string{"lab", "physics", "default"}[m.rnd.IntN(3)]}
}

func (m *month) charge(j *queue.Job, el *queue.Element, at time.Time, e queue.Ending) *queue.Charge {
	c := queue.ChargeOf(j, el, queue.Usage{CPU: time.Duration(m.rnd.Int64N(1e12)), MaxMemory: 5}, at)
	c.Outcome = e
	return c
}

func (m *month) end(j *queue.Job, el *queue.Element, at time.Time) queue.Body {
	done := m.rnd.IntN(2) == 0
	outcome := queue.EndingExit
	if done {
		outcome = queue.EndingDone
	}
	return &queue.Ended{Attempt: el.Attempt.Number, Done: done, Result: queue.Result{At: at}, Charge: m.charge(j, el, at, outcome)}
}

// finish ends all that lives.
func (m *month) finish() {
	m.book.Each(func(j *queue.Job) bool {
		if el := &j.Elements[0]; el.State.Live() {
			m.commit(ev(j.ID, 0, m.end(j, el, m.now.Add(1001*time.Microsecond))))
		}
		return true
	})
}

// charged sums the stored charges, and those that what still runs would have if it ended now.
func (m *month) charged() (sum held) {
	m.t.Helper()
	add := func(c *queue.Charge) {
		for i, v := range [...]int64{c.Millis(), c.SlotMillis(), c.FGPUMillis(), c.GPUMillis(), c.MemoryMiBMillis(), c.Consumables.Map()["licence"] * c.Millis()} {
			sum[i] += v
		}
	}
	if err := m.s.Charges(m.t.Context(), time.Time{}, time.Time{}, func(c store.Charged) error { add(&c.Charge); return nil }); err != nil {
		m.t.Fatal(err)
	}
	m.book.Each(func(j *queue.Job) bool {
		if el := &j.Elements[0]; el.State.Live() {
			add(queue.ChargeOf(j, el, queue.Usage{}, m.now))
		}
		return true
	})
	return sum
}

// TestAMonthOfJobsIsChargedExactly compares, to the last millisecond, three things that are made independently: the
// integral of what was held over time; the charges; and the hours, which are summed up behind the commits over a
// connection that is cut again and again, by two at once.
func TestAMonthOfJobsIsChargedExactly(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			target := storetest.URL(t)
			m := newMonth(newWriter(t, storetest.OpenURL(t, target)), seed)
			p := newProxy(t, target)
			cuts := rollUpUnderFire(t, storetest.OpenURL(t, p.url), p, seed)
			begin := m.now
			for n := 0; m.now.Before(begin.AddDate(0, 1, 0)); n++ {
				m.step()
				if n%300 == 299 {
					check(t, m.s)
					m.in.pass(m.now)
					if got, want := m.charged(), m.in.total(); got != want {
						t.Fatalf("after %s: charged %v, held %v", m.now.Sub(begin), got, want)
					}
				}
			}
			m.check() // a restart would have the same, what was waited included
			m.finish()
			lost := cuts()
			if lost == 0 {
				t.Error("no connection was cut")
			}
			if err := m.s.RollUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			check(t, m.s)
			if got, want := m.charged(), m.in.total(); got != want || want[3] == 0 || want[5] == 0 {
				t.Errorf("charged %v, held %v", got, want)
			}
			sameHours(t, target, m.in.hours)
			sameDays(t, m.s, m.in.hours)
			t.Logf("%d events, %d hours, %d cuts", m.book.LastSeq, len(m.in.hours), lost)
		})
	}
}

// rollUpUnderFire rolls up from two goroutines in small steps, losing now one answer of the database and now another, until the
// returned function is called, which says how often.
func rollUpUnderFire(t *testing.T, s *store.Store, p *proxy, seed uint64) (stop func() int32) {
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for i := range uint64(2) {
		rnd := rand.New(rand.NewPCG(seed, i+10))
		work.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(5 * time.Millisecond) // the rest of the test wants its turn, too
				p.skip.Store(rnd.Int32N(12))
				p.lose.Store(true)
				_ = s.RollUpBy(ctx, 1+rnd.Int64N(60)) // fails, as a rule
			}
		})
	}
	return func() int32 {
		cancel()
		work.Wait()
		p.lose.Store(false)
		return p.lost.Load()
	}
}

// check says that the hours are the sums of the charges up to the mark.
func check(t *testing.T, s *store.Store) {
	t.Helper()
	wrong, err := s.CheckRollUp(t.Context())
	if err != nil || len(wrong) > 0 {
		t.Fatalf("the rollup is wrong: %s, %v", strings.Join(wrong, "\n"), err)
	}
}

// sameHours compares the stored hours with the integral.
func sameHours(t *testing.T, url string, want map[hourKey]held) {
	t.Helper()
	got := query(t, url, `SELECT concat_ws(' ', extract(epoch FROM hour)::bigint / 3600, account, user_name, queue, ms, slot_ms, fgpu_ms, gpu_ms, memory_mib_ms,
		coalesce((SELECT amount_ms FROM consumable_hours c WHERE (c.hour, c.account, c.user_name, c.queue) = (u.hour, u.account, u.user_name, u.queue) AND name = 'licence'), 0))
		FROM usage_hours u WHERE ms > 0`)
	var lines []string
	for k, h := range want {
		lines = append(lines, fmt.Sprint(k.hour, " ", k.account, " ", k.user, " ", k.queue, " ", h[0], " ", h[1], " ", h[2], " ", h[3], " ", h[4], " ", h[5]))
	}
	slices.Sort(got)
	slices.Sort(lines)
	for i := range max(len(got), len(lines)) {
		var a, b string
		if i < len(got) {
			a = got[i]
		}
		if i < len(lines) {
			b = lines[i]
		}
		if a != b {
			t.Fatalf("of %d and %d hours:\n got %s\nwant %s", len(got), len(lines), a, b)
		}
	}
}

// sameDays compares days of a zone with the integral, from one day before the change to summer time to the day after.
func sameDays(t *testing.T, s *store.Store, hours map[hourKey]held) {
	t.Helper()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	from, to := time.Date(2026, 3, 28, 0, 0, 0, 0, berlin), time.Date(2026, 3, 31, 0, 0, 0, 0, berlin)
	want := map[string]held{}
	for k, h := range hours {
		at := time.Unix(k.hour*3600, 0).In(berlin)
		if at.Before(from) || !at.Before(to) {
			continue
		}
		day := fmt.Sprint(at.Format("2006-01-02 "), k.account, " ", k.user, " ", k.queue)
		sum := want[day]
		for i := range sum {
			sum[i] += h[i]
		}
		want[day] = sum
	}
	days := 0
	err = s.UsageDays(t.Context(), from, to, "Europe/Berlin", func(u *store.UsageSum) error {
		if u.Millis.Sign() == 0 {
			return nil
		}
		days++
		h := want[fmt.Sprint(u.Day.In(berlin).Format("2006-01-02 "), u.Account, " ", u.User, " ", u.Queue)]
		if got, want := fmt.Sprint(&u.Millis, &u.SlotMillis, &u.FGPUMillis, &u.GPUMillis, &u.MemoryMiBMillis), fmt.Sprint(h[0], h[1], h[2], h[3], h[4]); got != want {
			t.Errorf("%s of %s: got %s, want %s", u.Day, u.User, got, want)
		}
		return nil
	})
	if err != nil || days != len(want) || days == 0 {
		t.Errorf("%d days of users, want %d: %v", days, len(want), err)
	}
}

// A check that finds nothing must be able to find something.
func TestCheckRollUpFindsWhatDiffers(t *testing.T) {
	t.Parallel()
	for what, sql := range map[string]string{
		"a sum":             "UPDATE usage_hours SET slot_ms = slot_ms + 1 WHERE ms > 0 RETURNING ''",
		"a count":           "UPDATE usage_hours SET attempts = attempts + 1 RETURNING ''",
		"a row too few":     "DELETE FROM usage_hours RETURNING ''",
		"a row too many":    "INSERT INTO usage_hours SELECT hour + interval '1 year', account, user_name, queue, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM usage_hours RETURNING ''",
		"a charge too few":  "DELETE FROM charges RETURNING ''",
		"a mark too low":    "UPDATE usage_mark SET seq = seq - 1 RETURNING ''",
		"a consumable":      "UPDATE consumable_hours SET amount_ms = amount_ms - 1 RETURNING ''",
		"what ended":        "UPDATE ended_sums SET cpu_ns = cpu_ns + 1 WHERE level = 'quarter' RETURNING ''",
		"the longest run":   "UPDATE ended_sums SET job_turn_max = job_turn_max + 1 WHERE level = 'month' RETURNING ''",
		"lengths of waits":  "UPDATE ended_sums SET waits[1] = waits[1] + 1 WHERE level = 'day' RETURNING ''",
		"an hour too few":   "DELETE FROM ended_sums WHERE level = 'hour' RETURNING ''",
		"another's month":   "UPDATE ended_sums SET image = '' WHERE level = 'month' RETURNING ''",
		"what a GPU gave":   "UPDATE held_sums SET amount_ms = amount_ms + 1 WHERE what = 'gpu' RETURNING ''",
		"a node too few":    "DELETE FROM held_sums WHERE what = 'node' RETURNING ''",
		"a lower mark":      "UPDATE ended_mark SET seq = seq - 1 RETURNING ''",
		"another's account": "UPDATE usage_hours SET account = 'lab2' RETURNING ''",
	} {
		t.Run(what, func(t *testing.T) { // which closes its store
			url := storetest.URL(t)
			w := newWriter(t, storetest.OpenURL(t, url))
			w.do(ev(0, 0, &queue.NodeJoined{Node: node("n1")}), ev(1, 0, submitted("", nil)), ev(1, 0, started(1, "n1", 0, 50)), ev(1, 0, ended(1, 0, w.now)))
			for range 2 { // the second changes nothing
				if err := w.s.RollUp(t.Context()); err != nil {
					t.Fatal(err)
				}
				check(t, w.s)
			}
			if n := len(query(t, url, sql)); n == 0 {
				t.Fatalf("%s: nothing was changed", what)
			}
			if wrong, err := w.s.CheckRollUp(t.Context()); err != nil || len(wrong) == 0 {
				t.Errorf("%s: not found (%v)", what, err)
			}
		})
	}
}

// The charges of an older batchd, there before or made meanwhile, are worth what they say, and are rolled up once.
func TestOlderChargesAreInTheLedger(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	w := newWriter(t, storetest.OpenURL(t, url))
	query(t, url, `INSERT INTO charges (job, idx, attempt, user_name, account, queue, began, ended, slot_seconds, fgpu_seconds, cpu_ns, max_memory) VALUES
		(1, 0, 1, 'ada', '', 'gpu', '2026-03-01 11:59:00.0004Z', '2026-03-01 13:00:30.0004Z', 4 * 3690, 0.37 * 3690, 7, 8),
		(1, 0, 2, 'ada', 'lab', 'gpu', NULL, '2026-03-01 13:00:30Z', 0, 0, 0, 0),
		(1, 0, 3, 'ada', 'lab', 'gpu', '2026-03-01 15:00:00Z', '2026-03-01 14:00:00Z', 0, 0, 0, 0) RETURNING ''`)
	for range 2 {
		if err := w.s.RollUpBy(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	check(t, w.s)
	got := query(t, url, `SELECT concat_ws(' ', to_char(hour AT TIME ZONE 'UTC', 'HH24'), account, ms, slot_ms, fgpu_ms, attempts, cpu_ns) FROM usage_hours ORDER BY hour, account`)
	want := []string{"11 default 60000 240000 2220000 0 0", "12 default 3600000 14400000 133200000 0 0", "13 default 30000 120000 1110000 1 7", "13 lab 0 0 0 1 0", "14 lab 0 0 0 1 0"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	n := 0
	if err := w.s.Charges(t.Context(), time.Time{}, time.Time{}, func(c store.Charged) error {
		if n++; c.Attempt == 1 && (c.SlotSeconds() != 4*3690 || c.Slots != 0 || c.Account != "default") {
			t.Errorf("read as %+v", c)
		}
		return nil
	}); err != nil || n != 3 {
		t.Errorf("%d charges, %v", n, err)
	}
}

// A database of the version before has its charges in the ledger, and its events are read.
func TestTheLedgerIsAddedToADatabaseOfBefore(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	sql := "DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE public.schema_version (version int4 NOT NULL); INSERT INTO schema_version VALUES (2);"
	for _, name := range []string{"001_init.sql", "002_reservations.sql"} {
		text, err := os.ReadFile("migrations/" + name)
		if err != nil {
			t.Fatal(err)
		}
		sql += string(text)
	}
	sql += `INSERT INTO charges VALUES (1, 0, 1, 'ada', '', 'gpu', '2026-03-01 11:00:00Z', '2026-03-01 11:00:10.5Z', 21, 2.625, 7, 8);
		INSERT INTO events VALUES (1, 1, '2026-03-01 11:00:10.5Z', 1, 0, '', 'ended', '{"attempt":1,"result":{"status":0,"at":"2026-03-01T11:00:10.5Z"},"done":true,
			"charge":{"user":"ada","queue":"gpu","began":"2026-03-01T11:00:00Z","ended":"2026-03-01T11:00:10.5Z","slot_seconds":21,"fgpu_seconds":2.625,"cpu":7,"max_memory":8}}')`
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	s := storetest.OpenURL(t, url)
	if err := s.RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, s)
	if got := query(t, url, "SELECT concat_ws(' ', account, user_name, ms, slot_ms, fgpu_ms) FROM usage_hours"); !slices.Equal(got, []string{"default ada 10500 21000 262500"}) {
		t.Errorf("the hours have %q", got)
	}
	finished, err := s.LastFinished(t.Context(), time.Time{}, 1)
	if err != nil || len(finished) != 1 || finished[0].Charge.SlotSeconds() != 21 || finished[0].Charge.FGPUMillis() != 262_500 {
		t.Errorf("the event has %+v, %v", finished, err)
	}
}

// 10^6 GPUs for ten years in one attempt: sums in the database have no bound.
func TestTheGreatestSumsDoNotOverflow(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	w := newWriter(t, storetest.OpenURL(t, url))
	w.do(ev(0, 0, &queue.NodeJoined{Node: node("n1")}))
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w.do(ev(1, 0, submitted("", nil)), ev(1, 0, started(1, "n1", 0, 50)))
	end := ended(1, 0, w.now)
	end.Charge = &queue.Charge{User: "ada", Account: "lab", Queue: "gpu", Began: began, Ended: began.AddDate(10, 0, 0), Slots: 64e6, FGPU: 1e8, GPUs: 1e6}
	w.do(ev(1, 0, end))
	if err := w.s.RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, w.s)
	// 3652 days; an int64 ends at 9.2e18.
	got := query(t, url, "SELECT sum(fgpu_ms) || ' ' || sum(slot_ms) || ' ' || sum(gpu_ms) || ' ' || sum(attempts) FROM usage_hours")
	if want := "31553280000000000000 20194099200000000000 315532800000000000 1"; got[0] != want {
		t.Errorf("got  %s\nwant %s", got[0], want)
	}
}
