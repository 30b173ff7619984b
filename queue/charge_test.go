package queue_test

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

// step is an event some seconds after epoch.
type step struct {
	at   float64
	body queue.Body
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// played is job 1 after steps, on a node like machine.
func played(t *testing.T, spec queue.Spec, steps ...step) (*queue.Job, *queue.Element) {
	t.Helper()
	b := queue.NewBook()
	all := append([]step{{0, &queue.NodeJoined{Node: machine("a")}}, {0, submitted(spec)}}, steps...)
	for i, s := range all {
		ev := queue.Event{Seq: int64(i + 1), At: epoch.Add(seconds(s.at)), Body: s.body}
		if i > 0 {
			ev.Job = 1
		}
		if err := b.Apply(ev); err != nil {
			t.Fatal(err)
		}
	}
	return b.Find(queue.ElementID{Job: 1})
}

// TestWhatAnAttemptCosts has a row for each rule of ChargeOf. All hold 1 slot and 0.5 fGPU, until the time now.
func TestWhatAnAttemptCosts(t *testing.T) {
	for _, row := range []struct {
		what                    string
		spec                    queue.Spec
		steps                   []step
		now                     float64
		held, suspended, waited float64
	}{
		{"from dispatch to end", queue.Spec{}, []step{{5, started(1)}}, 65, 60, 0, 5},
		{"also the time before the command runs", queue.Spec{},
			[]step{{5, started(1)}, {50, &queue.Began{Attempt: 1, Ran: epoch.Add(seconds(50))}}}, 65, 60, 0, 5},
		{"times are cut to milliseconds, each by itself", queue.Spec{}, []step{{1.0009, started(1)}}, 2.0001, 1, 0, 1},
		{"suspended time is charged, and kept apart", queue.Spec{},
			[]step{{0, started(1)}, {10, &queue.Suspended{}}, {40, &queue.Resumed{}}}, 100, 100, 30, 0},
		{"suspended when it ends", queue.Spec{}, []step{{0, started(1)}, {10, &queue.Suspended{System: true}}}, 100, 100, 90, 0},
		{"suspended on a node that is lost: until the loss", queue.Spec{},
			[]step{{0, started(1)}, {10, &queue.Suspended{}}, {30, &queue.Lost{}}}, 100, 100, 20, 0},
		{"found again, still suspended", queue.Spec{},
			[]step{{0, started(1)}, {10, &queue.Suspended{}}, {30, &queue.Lost{}}, {50, &queue.Found{State: queue.USusp}}, {60, &queue.Resumed{}}}, 100, 100, 30, 0},
		{"a lost node: until the loss is settled", queue.Spec{}, []step{{0, started(1)}, {30, &queue.Lost{}}}, 600, 600, 0, 0},
		{"a requeue: the next attempt begins at 0", queue.Spec{},
			[]step{{5, started(1)}, {100, &queue.Requeued{Attempt: 1}}, {130, started(2)}}, 140, 10, 0, 30},
		{"held: not waited", queue.Spec{}, []step{{10, &queue.Suspended{}}, {60, &queue.Resumed{}}, {65, started(1)}}, 70, 5, 0, 15},
		{"submitted as held: not waited", queue.Spec{Hold: true}, []step{{60, &queue.Resumed{}}, {65, started(1)}}, 70, 5, 0, 5},
		{"a begin time: waited from then", queue.Spec{Begin: epoch.Add(seconds(50))}, []step{{55, started(1)}}, 70, 15, 0, 5},
		{"held over the begin time", queue.Spec{Begin: epoch.Add(seconds(50))},
			[]step{{10, &queue.Suspended{}}, {60, &queue.Resumed{}}, {65, started(1)}}, 70, 5, 0, 5},
		{"requeued after its end: waited since then only", queue.Spec{},
			[]step{{20, &queue.Suspended{}}, {30, &queue.Ended{}}, {40, &queue.Requeued{}}, {44, started(1)}}, 50, 6, 0, 4},
		{"the clock is set back by an hour while it runs", queue.Spec{}, []step{{3700, started(1)}}, 150, 0, 0, 3700},
		{"and while it is suspended", queue.Spec{},
			[]step{{3700, started(1)}, {3800, &queue.Suspended{}}, {250, &queue.Resumed{}}}, 3810, 110, 0, 3700},
		{"and while it is suspended until the end", queue.Spec{}, []step{{3700, started(1)}, {3800, &queue.Suspended{}}}, 3750, 50, 0, 3700},
		{"and while it waits", queue.Spec{}, []step{{-3600, started(1)}}, -3590, 10, 0, 0},
		{"and forth while it is suspended: no more than was held", queue.Spec{},
			[]step{{100, started(1)}, {0, &queue.Suspended{}}, {200, &queue.Resumed{}}}, 150, 50, 50, 100},
	} {
		j, el := played(t, row.spec, row.steps...)
		c := queue.ChargeOf(j, el, queue.Usage{}, epoch.Add(seconds(row.now)))
		if c.Slots != 1 || c.FGPU != 50 || c.Consumables != "licence=1" || c.Nodes != "a=1" || c.Slices != "GPU-a=50" {
			t.Errorf("%s: held %+v", row.what, c)
		}
		if got := c.Millis(); got != int64(row.held*1000) || c.SlotMillis() != got || c.FGPUMillis() != 50*got || c.FGPUSeconds() != row.held/2 {
			t.Errorf("%s: %d ms, %d slot-ms, %d fGPU-ms/100, %v fGPU-s, want %v s", row.what, got, c.SlotMillis(), c.FGPUMillis(), c.FGPUSeconds(), row.held)
		}
		if c.Suspended != seconds(row.suspended) || c.Waited != seconds(row.waited) {
			t.Errorf("%s: suspended %s, waited %s, want %v s and %v s", row.what, c.Suspended, c.Waited, row.suspended, row.waited)
		}
		if c.Began.After(c.Ended) || !c.Ended.Equal(epoch.Add(seconds(row.now)).Truncate(time.Millisecond)) {
			t.Errorf("%s: from %s to %s", row.what, c.Began, c.Ended)
		}
	}
}

func TestTheImageOfACharge(t *testing.T) {
	for _, row := range []struct {
		what  string
		steps []step
		want  string
	}{
		{"that ran", []step{{1, started(1)}, {2, &queue.Began{Attempt: 1, Image: "/images/torch.sif"}}}, "/images/torch.sif"},
		{"that never did", []step{{1, started(1)}}, "torch"},
	} {
		j, el := played(t, queue.Spec{Image: "torch"}, row.steps...)
		if c := queue.ChargeOf(j, el, queue.Usage{}, epoch); c.Image != row.want {
			t.Errorf("of a command %s: %q", row.what, c.Image)
		}
	}
}

func TestWhoIsCharged(t *testing.T) {
	for _, row := range []struct {
		what, asked, started, want string
	}{
		{"the account that was found at the start", "lab", "physics", "physics"},
		{"started by an older version: the job's", "lab", "", "lab"},
		{"started by an older version, none named", "", "", "default"},
	} {
		s := started(1)
		s.Account = row.started
		j, el := played(t, queue.Spec{Account: row.asked, Project: "alloys"}, step{1, s})
		if c := queue.ChargeOf(j, el, queue.Usage{}, epoch); c.Account != row.want || c.User != "ada" || c.Queue != "normal" || c.Project != "alloys" {
			t.Errorf("%s: %+v", row.what, c)
		}
	}
}

// Of a job on two nodes with a whole GPU, a part of one and an instance: all of it, and what was used by the node's word.
func TestAChargeHasAllThatWasHeldAndUsed(t *testing.T) {
	el := &queue.Element{State: queue.Run, Attempt: &queue.Attempt{Number: 1, Dispatched: epoch, RunLimit: time.Hour, Image: "/i.sif", Alloc: []nodes.Allocation{
		{Node: "a", Slots: 4, Memory: 3<<20 + 1, Consumables: "licence=1", Slices: []nodes.Slice{
			{UUID: "G1", Amount: 200, SMShare: 10_000}, {UUID: "G2", Amount: 50, SMShare: 2500}}},
		{Node: "b", Slots: 2, Memory: 1 << 20, Consumables: "licence=2,tape=1", Slices: []nodes.Slice{{UUID: "M1", Amount: 100, SMShare: 10_000, Mode: nodes.ModeMIG}}},
	}}}
	u := queue.Usage{CPU: 7, MaxMemory: 6, AvgMemory: 5, GPUs: []queue.GPUUsage{
		{UUID: "G1", MaxMemory: 3, SMTime: 10, Measured: 20}, {UUID: "G2", MaxMemory: 4, SMTime: 1, Measured: 20}}}
	j := &queue.Job{Spec: &queue.Spec{}, Owner: queue.Identity{User: "ada"}, Queue: "gpu"}
	got := queue.ChargeOf(j, el, u, epoch.Add(2*time.Second))
	want := queue.Charge{User: "ada", Account: "default", Queue: "gpu", Image: "/i.sif", Nodes: "a=4,b=2", Slices: "G1=200,G2=50,M1=100",
		Began: epoch, Ended: epoch.Add(2 * time.Second), Slots: 6, Memory: 4<<20 + 1, FGPU: 350, GPUs: 1, Consumables: "licence=3,tape=1",
		RunLimit: time.Hour, CPU: 7, MaxMemory: 6, AvgMemory: 5, GPUMemory: 4, SMTime: 11, SMMeasured: 40}
	if *got != want {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
	if x := float64(4<<20+1) / (1 << 30) * 2; got.GiBSeconds() != x {
		t.Errorf("%v GiB-seconds, want %v", got.GiBSeconds(), x)
	}
	if got.GPUMillis() != 2000 || got.MemoryMiB() != 5 || got.MemoryMiBMillis() != 10_000 || got.SlotMillis() != 12_000 || got.FGPUMillis() != 700_000 {
		t.Errorf("products %d %d %d %d", got.GPUMillis(), got.MemoryMiBMillis(), got.SlotMillis(), got.FGPUMillis())
	}
}

// Events of older versions say seconds only.
func TestOldChargesAreRead(t *testing.T) {
	const old = `{"user":"ada","account":"lab","queue":"gpu","began":"2026-03-01T12:00:00.0004Z","ended":"2026-03-01T12:01:00.5004Z",
		"slot_seconds":242,"fgpu_seconds":30.25,"cpu":5,"max_memory":6}`
	var c queue.Charge
	if err := json.Unmarshal([]byte(old), &c); err != nil {
		t.Fatal(err)
	}
	if c.SlotSeconds() != 242 || c.FGPUSeconds() != 30.25 || c.SlotMillis() != 242_000 || c.FGPUMillis() != 3_025_000 ||
		c.Millis() != 60_500 || c.CPU != 5 || c.MaxMemory != 6 || c.GPUMillis() != 0 || c.MemoryMiBMillis() != 0 || c.GiBSeconds() != 0 {
		t.Errorf("%+v: %v %v %d %d %d", c, c.SlotSeconds(), c.FGPUSeconds(), c.SlotMillis(), c.FGPUMillis(), c.Millis())
	}
	for _, s := range []float64{-1, math.NaN(), math.Inf(-1), 0} {
		if c := (queue.Charge{OldSlotTime: s}); c.SlotMillis() != 0 {
			t.Errorf("%v old slot-seconds are %d ms", s, c.SlotMillis())
		}
	}
	if c := (queue.Charge{OldSlotTime: math.Inf(1)}); c.SlotMillis() != math.MaxInt64 {
		t.Errorf("infinite slot-seconds are %d ms", c.SlotMillis())
	}
	text, err := json.Marshal(queue.Charge{Slots: 1})
	var again map[string]any
	if err != nil || json.Unmarshal(text, &again) != nil || again["slot_seconds"] != nil {
		t.Errorf("a new charge is written as %s, %v", text, err)
	}
}

// 10^6 GPUs for ten years: whole GPUs fit, and what does not fit stays at the most, and never turns negative.
func TestTheGreatestChargesDoNotOverflow(t *testing.T) {
	const gpus = 1_000_000
	c := queue.Charge{Slots: 64 * gpus, Memory: math.MaxInt64, FGPU: gpus * nodes.OneFGPU, GPUs: gpus, Began: epoch, Ended: epoch.AddDate(10, 0, 0)}
	years := c.Ended.Sub(c.Began).Milliseconds()
	for name, row := range map[string]struct{ got, amount int64 }{
		"gpu": {c.GPUMillis(), gpus}, "fgpu": {c.FGPUMillis(), gpus * 100}, "slot": {c.SlotMillis(), 64 * gpus}, "memory": {c.MemoryMiBMillis(), 1 << 43},
	} {
		want := new(big.Int).Mul(big.NewInt(row.amount), big.NewInt(years))
		if most := big.NewInt(math.MaxInt64); want.Cmp(most) > 0 {
			want = most
		}
		if big.NewInt(row.got).Cmp(want) != 0 {
			t.Errorf("%s: got %d, want %s", name, row.got, want)
		}
	}
	if got := c.GPUMillis(); got == math.MaxInt64 {
		t.Error("whole GPUs no longer fit")
	}
	if c := (queue.Charge{Slots: -1, Began: epoch, Ended: epoch.Add(time.Hour)}); c.SlotMillis() != 0 {
		t.Errorf("less than nothing costs %d", c.SlotMillis())
	}
	if c := (queue.Charge{Slots: 1, Began: epoch, Ended: epoch.Add(-time.Hour)}); c.SlotMillis() != 0 {
		t.Errorf("less than no time costs %d", c.SlotMillis())
	}
}

func FuzzParts(f *testing.F) {
	f.Add("n1", int64(4), "GPU-1,2=", int64(-1))
	f.Add("", int64(0), "=", int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, a string, x int64, b string, y int64) {
		queue.Parts(a).Each(func(string, int64) {}) // any text is read
		if a == "" || b == "" {
			return
		}
		p := queue.Parts("").With(a, x).With(b, y)
		var amounts []int64
		p.Each(func(_ string, n int64) { amounts = append(amounts, n) })
		if !slices.Equal(amounts, []int64{x, y}) || len(p.Names()) != 2 {
			t.Errorf("%q of %q and %q has %v", p, a, b, amounts)
		}
	})
}
