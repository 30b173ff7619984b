package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fairslice/nodes"
	"fairslice/queue"
	"fairslice/queue/queuetest"
)

// lab is a history with nodes a and b of 4 slots, 4 GB and two GPUs of 1 fGPU each, and c without GPUs.
func lab(t *testing.T) *history {
	h := &history{t: t, book: queue.NewBook()}
	for _, id := range []nodes.ID{"a", "b", "c"} {
		n := nodes.Node{ID: id, Slots: 4, Memory: 4 << 30, Consumables: "licence=2"}
		for i := range 2 {
			if id != "c" {
				n.GPUs = append(n.GPUs, nodes.GPU{Index: i, UUID: fmt.Sprintf("%s%d", id, i), Model: "Sim", Memory: 8 << 30, Capacity: 100})
			}
		}
		h.do(0, 0, &queue.NodeJoined{Node: n})
	}
	return h
}

// noon is a Tuesday.
var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// request reads brsvadd's options: "-u ada -n 2 -m a,b -b 13:00 -e 14:00"; a comma stands for a blank.
func request(line string) queue.ReservationRequest {
	q := queue.ReservationRequest{By: queue.Identity{User: "root", Admin: true}}
	words := strings.Fields(line)
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "-s":
			q.System = true
			continue
		case "-host":
			q.WholeHosts = true
			continue
		}
		i++
		v := words[i]
		switch words[i-1] {
		case "-u":
			q.Users = strings.Split(v, ",")
		case "-g":
			for n, name := range strings.Split(v, ",") {
				q.Groups = append(q.Groups, queue.Group{Name: name, GID: 500 + n})
			}
		case "-n":
			_, _ = fmt.Sscan(v, &q.Slots)
		case "-m":
			q.Hosts = strings.ReplaceAll(v, ",", " ")
		case "-gpu":
			q.GPU = v
		case "-b":
			q.Begin = v
		case "-e":
			q.End = v
		case "-t":
			q.Window = v
		case "-N":
			q.Name = v
		case "-d":
			q.Description = v
		default:
			panic(words[i-1])
		}
	}
	return q
}

// shares are as short as tables want them: "a:2 b:1+b0=0.5".
func shares(r *queue.Reservation) string {
	var out []string
	for _, a := range r.Shares {
		s := fmt.Sprintf("%s:%d", a.Node, a.Slots)
		if a.Exclusive {
			s += "!"
		}
		for _, sl := range a.Slices {
			s += fmt.Sprintf("+%s=%s", sl.UUID, sl.Amount)
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// reserve says what comes of a request: "ID shares", or the error; what is made is in the book then.
func (h *history) reserve(line string) string {
	r, err := h.book.Reserve(request(line), noon, 0)
	if err != nil {
		return "! " + err.Error()
	}
	h.do(0, 0, &queue.ReservationAdded{Reservation: r})
	return r.ID + " " + shares(r)
}

func TestReserve(t *testing.T) {
	const at = " -b 13:00 -e 14:00"
	for _, c := range []struct {
		name  string
		lines []string // request = what comes of it, one after the other in one book
	}{
		{"slots of one host", []string{"-u ada -n 3 -m a" + at + " = ada#0 a:3"}},
		{"slots are filled host by host, in the order named", []string{"-u ada -n 6 -m b,a" + at + " = ada#0 b:4 a:2"}},
		{"hosts that are not needed are left out", []string{"-u ada -n 2 -m b,a" + at + " = ada#0 b:2"}},
		{"more slots than there are", []string{"-u ada -n 9 -m a,b" + at + " = ! Not enough processors to be reserved: 9 slots wanted, 8 free"}},
		{"all hosts", []string{"-u ada -n 9 -m all" + at + " = ada#0 a:4 b:4 c:1"}},
		{"whole hosts with all they have", []string{"-u ada -host -m a,c" + at + " = ada#0 a:4!+a0=1+a1=1 c:4!"}},
		{"some whole hosts of several", []string{
			"-u ada -n 1 -m a" + at + " = ada#0 a:1",
			"-u ada -host -n 2 -m a,b,c" + at + " = ada#1 b:4!+b0=1+b1=1 c:4!",
			"-u ada -host -n 1 -m a,b,c" + at + " = ! Not enough processors to be reserved: 1 whole hosts wanted, 0 free; open at the same time: ada#0 ada#1"}},
		{"whole hosts, of which one is taken", []string{
			"-u ada -n 1 -m b" + at + " = ada#0 b:1",
			"-u eve -host -m a,b" + at + " = ! b: Not enough processors to be reserved; open at the same time: ada#0"}},
		{"maintenance is for nobody and takes whole hosts", []string{"-s -m b" + at + " = system#0 b:4!+b0=1+b1=1", "-s -m c" + at + " = system#1 c:4!"}},
		{"a fraction of a GPU of each host", []string{"-u ada -n 2 -m a,b -gpu fgpu=0.5" + at + " = ada#0 a:1+a0=0.5 b:1+b0=0.5"}},
		{"whole GPUs, the first host with most of the slots", []string{"-u ada -n 4 -m a,b -gpu num=2" + at + " = ada#0 a:3+a0=1+a1=1 b:1+b0=1+b1=1"}},
		{"GPUs beside other reservations", []string{
			"-u ada -n 1 -m a -gpu fgpu=0.5" + at + " = ada#0 a:1+a0=0.5",
			"-u ada -n 1 -m a -gpu fgpu=0.5" + at + " = ada#1 a:1+a0=0.5",
			"-u ada -n 1 -m a -gpu fgpu=0.75" + at + " = ada#2 a:1+a1=0.75",
			"-u ada -n 1 -m a -gpu fgpu=0.5" + at + " = ! a: Not enough GPU to be reserved: 0.5 fGPU wanted, the freest GPU has 0.25; open at the same time: ada#0 ada#1 ada#2",
			"-u ada -n 1 -m a -gpu num=1" + at + " = ! a: Not enough GPU to be reserved: 1 wanted, 0 free; open at the same time: ada#0 ada#1 ada#2"}},
		{"a host without GPUs", []string{"-u ada -n 2 -m a,c -gpu num=1" + at + " = ! c: Not enough GPU to be reserved: 1 wanted, 0 free"}},
		{"fewer slots than hosts that give GPUs", []string{"-u ada -n 1 -m a,b -gpu num=1" + at + " = ! -n 1: with -gpu each of the 2 hosts gives its GPUs and at least one slot"}},

		{"one after the other: an end is not in the window", []string{
			"-u ada -n 4 -m a -b 13:00 -e 14:00 = ada#0 a:4", "-u ada -n 4 -m a -b 14:00 -e 15:00 = ada#1 a:4",
			"-u ada -n 1 -m a -b 13:59 -e 14:01 = ! Not enough processors to be reserved: 1 slots wanted, 0 free; open at the same time: ada#0 ada#1"}},
		{"what counts is the most at one moment, not the sum", []string{
			"-u ada -n 2 -m a -b 13:00 -e 14:00 = ada#0 a:2", "-u ada -n 2 -m a -b 15:00 -e 16:00 = ada#1 a:2",
			"-u ada -n 2 -m a -b 12:30 -e 17:00 = ada#2 a:2", "-u ada -n 1 -m a -b 14:00 -e 15:00 = ada#3 a:1"}},
		{"at a moment at which one ends and another begins, only the other counts", []string{
			"-u ada -n 2 -m a -b 13:00 -e 14:00 = ada#0 a:2", "-u ada -n 2 -m a -b 14:00 -e 15:00 = ada#1 a:2",
			"-u ada -n 2 -m a -b 13:00 -e 15:00 = ada#2 a:2"}},
		{"no time is looked at twice", []string{
			"-u ada -n 1 -m c -b 2026:11:13:0:00 -e 2026:11:14:0:00 = ada#0 c:1", "-u ada -n 1 -m c -b 2026:11:13:1:00 -e 2026:11:14:1:00 = ada#1 c:1",
			"-u eve -n 2 -m a -t 18:00-20:00 = eve#0 a:2", "-u eve -n 2 -m a -t 18:00-20:00 = eve#1 a:2"}},
		{"one that happens once meets a weekly one far ahead", []string{
			"-u ada -n 4 -m a -t 5:18:0-5:20:0 = ada#0 a:4",
			"-u eve -n 1 -m a -b 2026:11:13:19:00 -e 2026:11:13:21:00 = ! Not enough processors to be reserved: 1 slots wanted, 0 free; open at the same time: ada#0",
			"-u eve -n 1 -m a -b 2026:11:13:20:00 -e 2026:11:13:21:00 = eve#0 a:1"}},
		{"a weekly one meets one that happens once far ahead", []string{
			"-u ada -n 4 -m a -b 2026:11:13:19:00 -e 2026:11:13:21:00 = ada#0 a:4",
			"-u eve -n 1 -m a -t 5:18:0-5:20:0 = ! Not enough processors to be reserved: 1 slots wanted, 0 free; open at the same time: ada#0",
			"-u eve -n 1 -m a -t 5:18:0-5:19:0 = eve#0 a:1"}},
		{"weekly and daily ones", []string{
			"-u ada -n 4 -m a -t 22:00-6:00 = ada#0 a:4",
			"-u eve -n 1 -m a -t 6:23:0-0:1:0 = ! Not enough processors to be reserved: 1 slots wanted, 0 free; open at the same time: ada#0",
			"-u eve -n 4 -m a -t 6:6:0-6:22:0 = eve#0 a:4"}},
		{"three at one moment far ahead", []string{
			"-u ada -n 2 -m a -b 2026:11:13:0:00 -e 2026:11:14:0:00 = ada#0 a:2", "-u ada -n 1 -m a -t 5:18:0-5:20:0 = ada#1 a:1",
			"-u eve -n 2 -m a -t 5:19:0-5:21:0 = ! Not enough processors to be reserved: 2 slots wanted, 1 free; open at the same time: ada#0 ada#1"}},

		{"over night: the end is seen from the beginning", []string{"-u ada -n 1 -m a -b 20:00 -e 8:00 = ada#0 a:1", "-u ada -n 1 -m a -b 13:00 -e +90 = ada#1 a:1"}},
		{"from now on", []string{"-u ada -n 1 -m a -b +0 -e 12:01 = ada#0 a:1", "-u ada -n 1 -m a -b +0 -e +0 = ! -e +0: Bad time specification: want [[[year:]month:]day:]hour:minute or +[hour:]minute: want at least one minute; leave the option out for the queue's default"}},
		{"a name, and numbers for each owner", []string{
			"-N course -u ada,eve -n 1 -m a" + at + " = course a:1", "-N course -u ada -n 1 -m a" + at + " = ! -N course: the reservation name is in use",
			"-u ada -n 1 -m a" + at + " = ada#0 a:1", "-u eve,ada -n 1 -m a" + at + " = eve#0 a:1", "-u ada -n 1 -m a" + at + " = ada#1 a:1", "-g staff -n 1 -m b" + at + " = staff#0 b:1"}},

		{"what is wrong is said", []string{
			"-n 1 -m a" + at + " = ! no users: name those who may use it with -u or -g, or reserve for maintenance with -s",
			"-s -u ada -m a" + at + " = ! a reservation for the system has no users: leave out -u and -g, or -s",
			"-u ada,ada -n 1 -m a" + at + " = ! ada: Bad user or user group name: named twice",
			"-u ada, -n 1 -m a" + at + ` = ! "": Bad user or user group name`,
			"-N 1st -u ada -n 1 -m a" + at + " = ! -N 1st: Bad reservation name: want a letter and then letters, digits, _ and -, at most 39 in all",
			"-N ada#0 -u ada -n 1 -m a" + at + " = ! -N ada#0: Bad reservation name: want a letter and then letters, digits, _ and -, at most 39 in all",
			"-u ada -m a" + at + " = ! -n: how many slots? (-unit host reserves whole hosts)",
			"-u ada -n -2 -m a" + at + " = ! -n -2: Bad processor count: want 1 to 1000000",
			"-u ada -host -m a -gpu num=1" + at + " = ! -gpu: a whole host holds all of its GPUs: leave it out, or reserve slots",
			"-u ada -n 1 -m a -gpu num=1/task" + at + " = ! -gpu num=1/task: a reservation has no tasks: want num=N or fgpu=X of each host",
			"-u ada -n 1 -m a -gpu num=1:mps=yes" + at + " = ! -gpu mps: has no effect: how a slice is enforced is the node's setting",
			"-u ada -n 1 -m a -gpu what" + at + " = ! -gpu what: want \"-\" or key=value:…, with keys num mode mps j_exclusive aff block gpack gvendor gmodel gtile gmem glink mig fgpu; got what",
			"-u ada -n 1" + at + ` = ! -m is empty: want host names separated by blanks, such as "h1! h2+2 others"`,
			"-u ada -n 1 -m z" + at + " = ! z: Bad host name, host group name or cluster name",
			"-u ada -n 1 -m a!" + at + " = ! a!: Bad host specification: a reservation takes plain host names, in the order of preference",
			"-u ada -n 1 -m a = ! no time: give -b and -e for a reservation that happens once, -t for a recurring one",
			"-u ada -n 1 -m a -b 13:00 = ! no time: give -b and -e for a reservation that happens once, -t for a recurring one",
			"-u ada -n 1 -m a -t 8-9" + at + " = ! -t is for a recurring reservation, -b and -e are for one that happens once: give either",
			"-u ada -n 1 -m a -t 8-8 = ! 8-8: Bad time window: it ends when it begins",
			"-u ada -n 1 -m a -b 13:00 -e 13:00 = ! -e 13:00: the reservation would end when it begins",
			"-u ada -n 1 -m a -b 2026:1:1:0:00 -e 14:00 = ! -b 2026:1:1:0:00: Bad time specification: 2026-01-01 00:00 is in the past",
			"-u ada -n 1 -m a -b 2201:1:1:0:00 -e +60 = ! -b 2201:1:1:0:00: Bad time specification: want a year up to 2200",
			"-u ada -n 1 -m a -b 13:00 -e 2030:1:1:0:00 = ! -b 13:00 -e 2030:1:1:0:00: the reservation would last longer than a year"}},
	} {
		h := lab(t)
		for _, line := range c.lines {
			do, want, _ := strings.Cut(line, " = ")
			if got := h.reserve(do); got != want {
				t.Errorf("%s: %s\n got  %s\n want %s", c.name, do, got, want)
			}
		}
		if err := h.agrees(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestASlotBringsItsPartOfTheMemory(t *testing.T) {
	h := lab(t)
	h.reserve("-u ada -n 3 -m a -b 13:00 -e 14:00")
	if a := h.book.Reservations["ada#0"].Share("a"); a.Memory != 3<<30 || h.book.Reservations["ada#0"].Share("b") != nil {
		t.Errorf("got %+v", a)
	}
	h.reserve("-u ada -host -m b -b 13:00 -e 14:00")
	if a := h.book.Reservations["ada#1"].Share("b"); a.Memory != 4<<30 || a.Consumables != "licence=2" {
		t.Errorf("a whole host is %+v", a)
	}
	h.do(0, 0, &queue.NodeJoined{Node: nodes.Node{ID: "a", Slots: 4, Memory: 2 << 30}}) // smaller than what ada#0 holds
	if got := h.reserve("-u ada -n 1 -m a -b 13:00 -e 14:00"); !strings.HasPrefix(got, "! Not enough processors") {
		t.Errorf("more memory than there is was reserved: %s", got)
	}
}

func TestAHostThatIsAwayCanBeReserved(t *testing.T) {
	h := lab(t).do(0, 0, &queue.NodeLost{Node: "a"}, &queue.NodeClosed{Node: "b"})
	if got := h.reserve("-u ada -n 8 -m a,b -b 13:00 -e 14:00"); got != "ada#0 a:4 b:4" {
		t.Error(got)
	}
}

func TestAdmits(t *testing.T) {
	r := queue.Reservation{Users: []string{"ada"}, Groups: []queue.Group{{Name: "staff", GID: 50}}}
	for _, c := range []struct {
		name string
		id   queue.Identity
		want bool
	}{
		{"a user named", queue.Identity{User: "ada", GID: 1}, true},
		{"a user not named", queue.Identity{User: "eve", GID: 1, Groups: []int{2}}, false},
		{"by the first group", queue.Identity{User: "eve", GID: 50}, true},
		{"by another group", queue.Identity{User: "eve", GID: 1, Groups: []int{2, 50}}, true},
		{"an administrator is a user like others", queue.Identity{User: "root", Admin: true}, false},
	} {
		if r.Admits(c.id) != c.want {
			t.Errorf("%s: %v", c.name, !c.want)
		}
	}
	if (&queue.Reservation{}).Admits(queue.Identity{}) {
		t.Error("one for the system admits somebody")
	}
}

func TestWindowOfOneThatHappensOnce(t *testing.T) {
	r := queue.Reservation{Begin: noon, End: noon.Add(time.Hour)}
	for _, c := range []struct {
		name     string
		now      time.Time
		ok, open bool
	}{
		{"before", noon.Add(-1), true, false}, {"its beginning", noon, true, true},
		{"its last moment", r.End.Add(-1), true, true}, {"its end", r.End, false, false},
	} {
		begin, end, ok := r.Window(c.now, time.UTC)
		if ok != c.ok || r.Open(c.now, time.UTC) != c.open || !begin.Equal(r.Begin) || !end.Equal(r.End) {
			t.Errorf("%s: %s to %s, %v, open %v", c.name, begin, end, ok, r.Open(c.now, time.UTC))
		}
	}
	weekly := queue.Reservation{Recurring: &queue.TimeWindow{Daily: true, Begin: 60, End: 120}}
	if got := weekly.Windows(noon, noon.Add(72*time.Hour), time.UTC); len(got) != 3 || !got[2].Begin.Equal(noon.Add(61*time.Hour)) {
		t.Errorf("three days have the windows %v", got)
	}
	if got := r.Windows(noon, noon.Add(72*time.Hour), time.UTC); len(got) != 1 {
		t.Errorf("three days have the windows %v", got)
	}
}

func TestReservationEventsThatDoNotFollowAreRefused(t *testing.T) {
	h := lab(t)
	h.reserve("-u ada -n 1 -m a -b 13:00 -e 14:00")
	good := *h.book.Reservations["ada#0"]
	bad := func(change func(r *queue.Reservation)) queue.Body {
		r := good
		r.ID = "x"
		change(&r)
		return &queue.ReservationAdded{Reservation: &r}
	}
	for _, c := range []struct {
		name string
		body queue.Body
		err  string
	}{
		{"one that is there", &queue.ReservationAdded{Reservation: &good}, "is there already"},
		{"none", &queue.ReservationAdded{}, "no reservation"},
		{"without a name", bad(func(r *queue.Reservation) { r.ID = "" }), "no name"},
		{"without shares", bad(func(r *queue.Reservation) { r.Shares = nil }), "holds nothing"},
		{"that ends before it begins", bad(func(r *queue.Reservation) { r.End = r.Begin }), "ends at"},
		{"once and again", bad(func(r *queue.Reservation) { r.Recurring = &queue.TimeWindow{End: 5} }), "recurring and happens once"},
		{"in a window that is none", bad(func(r *queue.Reservation) {
			r.Begin, r.End, r.Recurring = time.Time{}, time.Time{}, &queue.TimeWindow{Daily: true, End: 2000}
		}), "from minute 0 to 2000"},
		{"deleting what is not there", &queue.ReservationDeleted{ID: "x"}, "not known"},
	} {
		before := queuetest.Describe(h.book)
		if err := h.try(0, 0, c.body); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.err)
		}
		if d := queuetest.Diff(before, queuetest.Describe(h.book)); d != "" {
			t.Errorf("%s changed the book: %s", c.name, d)
		}
	}
	h.book.TakeDirty()
	h.do(0, 0, &queue.ReservationDeleted{ID: "ada#0"})
	if d := h.book.TakeDirty(); len(d.Reservations) != 1 || len(h.book.Reservations) != 0 {
		t.Errorf("deleting leaves %v, and %v to write", h.book.Reservations, d.Reservations)
	}
	if err := h.agrees(); err != nil {
		t.Error(err)
	}
	if err := queue.NewBook().RestoreReservations([]*queue.Reservation{{ID: "x"}}); err == nil {
		t.Error("a row that is no reservation was restored")
	}
}

// A job that waits for a deleted reservation must not get the resources of the next one.
func TestIDsThatJobsWaitForAreNotGivenAgain(t *testing.T) {
	const line = "-u ada -n 1 -m a -b 13:00 -e 14:00"
	h := lab(t)
	h.reserve(line)
	h.do(1, 0, submitted(queue.Spec{Reservation: "ada#0"})).do(0, 0, &queue.ReservationDeleted{ID: "ada#0"})
	if got := h.reserve(line); got != "ada#1 a:1" {
		t.Error(got)
	}
	h.do(1, 0, &queue.Ended{})
	if got := h.reserve(line); got != "ada#0 a:1" {
		t.Error(got)
	}
	for range 200 {
		h.reserve("-u eve -n 4 -m c -b " + fmt.Sprintf("2027:1:%d:%d:00 -e +60", 1+len(h.book.Reservations)/24, len(h.book.Reservations)%24))
	}
	if got := h.reserve("-u eve -n 1 -m b -b 13:00 -e 14:00"); got != "! eve has 100 reservations: No more reservation IDs can be used now" {
		t.Error(got)
	}
}

// Whatever is asked for, and in whatever zone: at no moment do the shares of the open reservations
// exceed a node.
func TestReservationsNeverExceedANode(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo"}
	rapid.Check(t, func(rt *rapid.T) {
		h := lab(t)
		loc, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(rt, "zone"))
		if err != nil {
			rt.Fatal(err)
		}
		now := time.Unix(1_773_000_000+rapid.Int64Range(0, 366*86400).Draw(rt, "now"), 0).In(loc)
		pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, label) }
		made := 0
		for range rapid.IntRange(1, 25).Draw(rt, "requests") {
			q := request("-u ada -n " + pick("slots", "1", "2", "3", "5") + " -m " + pick("hosts", "a", "b", "a,b", "b,a,c") +
				pick("gpu", "", "", " -gpu fgpu=0.5", " -gpu fgpu=0.7", " -gpu num=1", " -gpu num=2"))
			if q.WholeHosts = rapid.IntRange(0, 5).Draw(rt, "whole") == 0; q.WholeHosts {
				q.GPU, q.Slots = "", 1
			}
			hour := func() string {
				return fmt.Sprintf("%d:%s", rapid.IntRange(0, 23).Draw(rt, "hour"), pick("minute", "00", "30"))
			}
			switch pick("kind", "once", "daily", "weekly") {
			case "once":
				q.Begin, q.End = fmt.Sprintf("+%d:00", rapid.IntRange(0, 3000).Draw(rt, "in")), fmt.Sprintf("+%d:00", rapid.IntRange(1, 500).Draw(rt, "for"))
			case "daily":
				q.Window = hour() + "-" + hour()
			default:
				q.Window = pick("day", "0:", "6:", "3:") + hour() + "-" + pick("day", "0:", "6:", "3:") + hour()
			}
			r, err := h.book.Reserve(q, now, 0)
			if err != nil {
				continue
			}
			made++
			h.do(0, 0, &queue.ReservationAdded{Reservation: r})
		}
		if made == 0 {
			return
		}
		for _, r := range h.book.Reservations { // the most is held when one opens
			for _, p := range r.Windows(now, now.Add(140*24*time.Hour), loc) {
				for id, n := range h.book.Nodes {
					free := n.Empty()
					for _, o := range h.book.Reservations {
						if s := o.Share(id); s != nil && o.Open(p.Begin, loc) {
							if err := free.Take(*s); err != nil && !p.Begin.Before(now) {
								rt.Fatalf("%s at %s: %v", o.ID, p.Begin, err)
							}
						}
					}
				}
			}
		}
	})
}

func FuzzReserve(f *testing.F) {
	f.Add("", "ada", "a", "", "13:00", "14:00", "", "", 1)
	f.Add("x", "eve", "all", "num=1", "", "", "5:18:0-5:20:0", "why", 2)
	f.Add("a-b", "é", "a! b+2", "fgpu=0.5:gmem=", "+0", "+525600", "22-6", "\n", 1<<40)
	f.Add("-", "a#1", "others", "-", "2:30:1:1", "24:00", "-", "", -1)
	f.Fuzz(func(t *testing.T, name, user, hosts, gpu, begin, end, window, description string, slots int) {
		h := lab(t)
		q := queue.ReservationRequest{Name: name, Users: []string{user}, Hosts: hosts, Slots: slots, GPU: gpu, Begin: begin, End: end,
			Window: window, Description: description, WholeHosts: gpu == ""}
		r, err := h.book.Reserve(q, noon, 0)
		if err != nil {
			return
		}
		h.do(0, 0, &queue.ReservationAdded{Reservation: r})
		if err := h.agrees(); err != nil {
			t.Error(err)
		}
	})
}
