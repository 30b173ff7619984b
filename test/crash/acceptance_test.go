package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

// intent is a job that a user wants. Each try has its own name, so that a try that was not acknowledged,
// and may nevertheless have become a job, is not mistaken for the next one.
type intent struct {
	number   int
	elements int // 1: no array
	sleep    time.Duration
	end      string // the script's last command
	state    string
	code     int
	why      string // the verdict, "-" for none
	gpu      string // fGPU, "" for none
	image    bool
	rerun    bool
}

// ends are the ways in which a job may end.
var ends = []intent{
	{end: "exit 0", state: "DONE", code: -1, why: "-"},
	{end: "true", state: "DONE", code: -1, why: "-"},
	{end: "exit 3", state: "EXIT", code: 3, why: "-"},
	{end: "exit 255", state: "EXIT", code: 255, why: "-"},
	{end: "kill -TERM $$", state: "EXIT", code: 128 + 15, why: "TERM_EXTERNAL_SIGNAL"},
	{end: "kill -KILL $$", state: "EXIT", code: 128 + 9, why: "TERM_EXTERNAL_SIGNAL"},
	{end: "kill -SEGV $$", state: "EXIT", code: 128 + 11, why: "-"},
}

// makeIntents is the same for the same seed. count is of elements.
func makeIntents(r *rand.Rand, count int) []intent {
	var out []intent
	for total := 0; total < count; {
		w := ends[r.IntN(len(ends))]
		w.number, w.elements = len(out), 1
		if r.IntN(10) == 0 {
			w.elements = min(2+r.IntN(4), count-total)
		}
		if r.IntN(3) == 0 {
			w.sleep = time.Duration(100+r.IntN(1900)) * time.Millisecond
		}
		switch r.IntN(6) {
		case 0:
			w.gpu = "0.5"
		case 1:
			w.gpu = "1"
		}
		w.rerun = r.IntN(8) == 0
		if r.IntN(10) == 0 && !strings.HasPrefix(w.end, "kill") {
			w.image = true
		}
		out = append(out, w)
		total += w.elements
	}
	return out
}

// args are bsub's. The text is not in the script as it stands, since the job's report quotes the script.
func (w *intent) args(name string) []string {
	script := fmt.Sprintf("echo $LSB_JOBINDEX >> %s.runs\n", name)
	if w.sleep > 0 {
		script += fmt.Sprintf("sleep %.2f\n", w.sleep.Seconds())
	}
	script += fmt.Sprintf("echo te''xt of %s $LSB_JOBINDEX ${FAIRSLICE_FGPU:-none}\n%s", name, w.end)
	args := []string{"-J", name, "-o", name + ".out"}
	if w.elements > 1 {
		args = []string{"-J", fmt.Sprintf("%s[1-%d]", name, w.elements), "-o", name + ".%I.out"}
	}
	if w.gpu != "" {
		args = append(args, "-gpu", "fgpu="+w.gpu)
	}
	if w.image {
		args = append(args, "-image", "sample")
	}
	if w.rerun {
		args = append(args, "-r")
	}
	return append(args, script)
}

// try is one bsub.
type try struct {
	*intent
	name  string
	job   int // 0: not acknowledged
	began time.Time
}

// kill is one kill -9.
type kill struct {
	part
	at time.Time
}

// murderer kills parts of a cluster, one at a time, at moments that the seed decides.
type murderer struct {
	c    *cluster
	rand *rand.Rand

	done []kill
}

func (m *murderer) run(kills int) {
	parts := []part{{"batchd", 0}, {"batchd", 0}, {"postgres", 0}, {"noded", 1}, {"noded", 2}, {"shepherd", 1}, {"shepherd", 2}}
	for n := 0; n < kills; {
		time.Sleep(time.Duration(50+m.rand.IntN(700)) * time.Millisecond)
		victim := parts[m.rand.IntN(len(parts))]
		wait := m.rand.IntN(2) == 0
		at := time.Now()
		if !m.c.kill9(victim) {
			continue // it is dead already
		}
		n++
		m.done = append(m.done, kill{victim, at})
		for end := time.Now().Add(20 * time.Second); wait && !m.c.up() && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// both says whether noded and a shepherd of this node were killed while a job could be there.
func (m *murderer) both(host string, began time.Time) bool {
	seen := map[string]bool{}
	for _, k := range m.done {
		if k.String() == strings.Replace(host, "node", k.kind, 1) && k.at.After(began) {
			seen[k.kind] = true
		}
	}
	return seen["noded"] && seen["shepherd"]
}

func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func TestAcceptance(t *testing.T) {
	seed := number(t, "FAIRSLICE_CRASH_SEED", uint64(time.Now().UnixNano()))
	count := int(number(t, "FAIRSLICE_CRASH_JOBS", 200))
	t.Logf("FAIRSLICE_CRASH_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	c := newCluster(t)
	intents := makeIntents(r, count)
	began := time.Now()
	m := &murderer{c: c, rand: rand.New(rand.NewPCG(seed, 2))}
	murdered := make(chan struct{})
	go func() { defer close(murdered); m.run(max(count/10, 1)) }()
	tries := submitAll(c, intents, seed, murdered)
	t.Logf("%d submissions after %s", len(tries), time.Since(began).Round(time.Millisecond))
	<-murdered
	for _, k := range m.done {
		t.Logf("killed %s after %s", k, k.at.Sub(began).Round(time.Millisecond))
	}
	c.until("the cluster is up", time.Minute, c.up)
	var all map[string]jobState
	c.until("every job ends", 90*time.Second, func() bool {
		var err error
		if all, err = c.jobs(); err != nil {
			return false
		}
		for _, j := range all {
			if j.state != "DONE" && j.state != "EXIT" {
				return false
			}
		}
		return true
	})
	t.Logf("all have ended after %s", time.Since(began).Round(time.Millisecond))
	c.settled() // first: the jobs' reports are written before a node lets go of them
	judge(c, m, tries, all)

	before := c.must("bjobs", "-a", "-w")
	if took := c.stop(); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	}
	c.gone()
	c.start()
	if after := c.must("bjobs", "-a", "-w"); after != before {
		t.Errorf("after a restart bjobs says\n%s\nbefore it\n%s", after, before)
	}
	c.settled()
}

// submitAll runs as many loops as a user with some terminals would. The loops are as slow as the kills, so that these meet all of it.
func submitAll(c *cluster, intents []intent, seed uint64, murdered <-chan struct{}) []try {
	const loops = 4
	tries := make([][]try, loops)
	parallel(loops, func(l int) {
		r := rand.New(rand.NewPCG(seed, uint64(10+l)))
		for i := l; i < len(intents); i += loops {
			w := &intents[i]
			for n := 0; ; n++ {
				t := try{intent: w, name: fmt.Sprintf("j%dt%d", w.number, n), began: time.Now()}
				var err error
				t.job, err = c.submit(w.args(t.name)...)
				tries[l] = append(tries[l], t)
				if err == nil {
					break
				}
				c.t.Logf("try %d of job %d: %v", n, w.number, err)
				if n == 10 {
					c.t.Errorf("job %d could not be submitted: %v", w.number, err)
					return
				}
			}
			select {
			case <-murdered:
			case <-time.After(time.Duration(r.IntN(500)) * time.Millisecond):
			}
		}
	})
	var all []try
	for _, some := range tries {
		all = append(all, some...)
	}
	sort.Slice(all, func(i, k int) bool { return all[i].name < all[k].name })
	return all
}

// judge compares what the users see with what they asked for.
func judge(c *cluster, m *murderer, tries []try, all map[string]jobState) {
	names := map[string]string{} // of a job's number
	for line := range strings.Lines(c.must("bjobs", "-a", "-noheader", "-o", "jobid job_name delimiter='|'")) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), "|")
		id, _, _ = strings.Cut(id, "[")
		name, _, _ = strings.Cut(name, "[")
		names[name] = id
	}
	acknowledged, lost, rerun, unsaid := 0, 0, 0, 0
	for _, t := range tries {
		id, exists := names[t.name]
		if t.job == 0 && !exists {
			if c.read(t.name+".runs") != "" {
				c.t.Errorf("%s is no job, and has run", t.name)
			}
			continue
		}
		if t.job == 0 {
			unsaid++
		} else if acknowledged++; id != strconv.Itoa(t.job) {
			c.t.Errorf("%s was acknowledged as job %d; bjobs has %q", t.name, t.job, id)
			continue
		}
		runs := map[string]int{}
		for line := range strings.Lines(c.read(t.name + ".runs")) {
			runs[strings.TrimSpace(line)]++
		}
		for i := 1; i <= t.elements; i++ {
			index, key, file := "0", id, t.name+".out"
			if t.elements > 1 {
				index = strconv.Itoa(i)
				key, file = id+"["+index+"]", t.name+"."+index+".out"
			}
			j, ok := all[key]
			if !ok {
				c.t.Errorf("%s: no such element", key)
				continue
			}
			if runs[index] > 1 && t.rerun {
				rerun++
			}
			if strings.HasPrefix(j.why, "TERM_UNKNOWN") {
				c.t.Logf("job %s on %s has lost its exit status (rerunnable: %v)", key, j.host, t.rerun)
				lost++
				if t.rerun || j.state != "EXIT" || !m.both(j.host, t.began) {
					c.t.Errorf("job %s: %+v", key, j)
				}
			} else if why, _, _ := strings.Cut(j.why, ":"); j.state != t.state || j.code != t.code || why != t.why {
				c.t.Errorf("job %s ended as %+v, want %s %d %s", key, j, t.state, t.code, t.why)
			}
			gpu := t.gpu
			if gpu == "" {
				gpu = "none"
			}
			text, want := 0, fmt.Sprintf("text of %s %s %s\n", t.name, index, gpu)
			for line := range strings.Lines(c.read(file)) {
				if line == want {
					text++
				}
			}
			if n := runs[index]; n != 1 && !t.rerun || n < 1 {
				c.t.Errorf("job %s (%s) was run %d times (rerunnable: %v)", key, t.name, n, t.rerun)
			}
			if text != 1 && !t.rerun || text < 1 {
				c.t.Errorf("job %s has its text %d times:\n%s", key, text, c.read(file))
			}
		}
	}
	c.t.Logf("%d jobs acknowledged, %d made without an answer, %d elements run again, %d exit statuses lost, %d kills", acknowledged, unsaid, rerun, lost, len(m.done))
}
