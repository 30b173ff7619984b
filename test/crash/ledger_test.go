package crash

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairslice/queue"
	"fairslice/store"
)

// rollUpURL makes of this program one that rolls up charges, over and over, until it is killed: see TestMain.
const rollUpURL = "FAIRSLICE_CRASH_ROLLUP"

// rollUpForever says a line once it has begun. The database goes when batchd is killed, and comes again.
func rollUpForever(url string) int {
	ctx := context.Background()
	for said := false; ; {
		if st, err := store.Open(ctx, store.Config{URL: url}); err == nil {
			for ; st.RollUp(ctx) == nil; said = true {
				if !said {
					fmt.Println("rolling")
				}
			}
			st.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// killRollUps runs such programs, one after the other, and kills each at a moment that the seed decides.
func killRollUps(t *testing.T, url string, r *rand.Rand, stop <-chan struct{}) (killed int) {
	for {
		select {
		case <-stop:
			return killed
		default:
		}
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), rollUpURL+"="+url)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Error(err)
			return killed
		}
		if err := cmd.Start(); err != nil {
			t.Error(err)
			return killed
		}
		rolling := make(chan string, 1)
		go func() { line, _ := bufio.NewReader(out).ReadString('\n'); rolling <- line }()
		select {
		case <-stop:
		case line := <-rolling:
			if line != "rolling\n" {
				t.Errorf("the program that rolls up said %q", line)
			}
			killed++
			time.Sleep(time.Duration(r.IntN(60_000)) * time.Microsecond)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// killDaemons kills batchd again and again. Two times of three it may come up before, and roll up.
func killDaemons(c *cluster, r *rand.Rand, stop <-chan struct{}, killed *atomic.Int64) {
	for {
		for end := time.Now().Add(20 * time.Second); r.IntN(3) > 0 && time.Now().Before(end); {
			if _, err := c.command("lsid"); err == nil {
				break
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(r.IntN(1000)) * time.Millisecond):
		}
		if c.kill9(part{kind: "batchd"}) {
			killed.Add(1)
		}
	}
}

// TestKillsDuringRollUp lets jobs run while charges are rolled up all the time, by batchd as it starts and by another
// process beside it, and kills both at any moment. In the end the sums are those of the charges, and these what was held.
func TestKillsDuringRollUp(t *testing.T) {
	seed := number(t, "FAIRSLICE_CRASH_SEED", uint64(time.Now().UnixNano()))
	t.Logf("FAIRSLICE_CRASH_SEED=%d", seed)
	c := newCluster(t)
	url := "host=" + filepath.Join(c.dir, "postgres/run") + " user=fairslice dbname=fairslice"
	stop, rolled := make(chan struct{}), make(chan int, 1)
	go func() { rolled <- killRollUps(t, url, rand.New(rand.NewPCG(seed, 1)), stop) }()
	var killed atomic.Int64
	daemons := make(chan struct{})
	go func() { defer close(daemons); killDaemons(c, rand.New(rand.NewPCG(seed, 2)), stop, &killed) }()
	parallel(4, func(l int) {
		r := rand.New(rand.NewPCG(seed, uint64(10+l)))
		for n := 0; n < 10 || n < 400 && killed.Load() < 5; n++ {
			size, args := 1, []string{"-P", "p" + strconv.Itoa(r.IntN(3))}
			if r.IntN(3) == 0 {
				size = 2 + r.IntN(5)
				args = append(args, "-J", fmt.Sprintf("a[1-%d]", size))
			}
			if r.IntN(3) == 0 {
				args = append(args, "-gpu", "fgpu="+[]string{"0.5", "1", "0.25"}[r.IntN(3)])
			}
			if r.IntN(4) == 0 {
				args = append(args, "-n", "2")
			}
			args = append(args, []string{"true", "exit 3", "sleep 0.2", "kill -9 $$"}[r.IntN(4)])
			if _, err := c.submit(args...); err != nil { // batchd was away for long; the job may be there all the same
				t.Logf("bsub %q: %v", args, err)
			}
		}
	})
	ended := func() bool {
		all, err := c.jobs()
		for _, j := range all {
			if j.state != "DONE" && j.state != "EXIT" {
				return false
			}
		}
		return err == nil
	}
	close(stop)
	<-daemons
	others := <-rolled
	t.Logf("batchd was killed %d times, and others that rolled up %d times", killed.Load(), others)
	if killed.Load() < 5 || others < 20 {
		t.Errorf("so few kills prove nothing")
	}
	c.until("the cluster is up", 30*time.Second, c.up)
	c.until("every job ends", 2*time.Minute, ended)
	c.settled()

	st, err := store.Open(t.Context(), store.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	wrong, err := st.CheckRollUp(t.Context())
	if err != nil || len(wrong) > 0 {
		t.Errorf("the roll-up differs: %v\n%s", err, strings.Join(wrong, "\n"))
	}
	attempts, slotTime, fgpuTime := c.checkLedger(st)
	t.Logf("%d attempts, %d slot-ms, %d 1/100 fGPU-ms", attempts, slotTime, fgpuTime)
	got := c.query("SELECT sum(attempts) || ' ' || sum(slot_ms) || ' ' || sum(fgpu_ms) FROM usage_hours")
	if want := fmt.Sprint(attempts, slotTime, fgpuTime); got != want {
		t.Errorf("rolled up: %s attempts, slot-ms and 1/100 fGPU-ms; the events have %s", got, want)
	}
}

// checkLedger compares each charge with the events: what was allocated, from the start to the end. It returns the sums.
func (c *cluster) checkLedger(st *store.Store) (attempts int, slotTime, fgpuTime int64) {
	c.t.Helper()
	charged := strings.Fields(c.query("SELECT concat_ws(',', job, idx, attempt, slots, fgpu, began_ms, ended_ms) FROM ledger"))
	var ids []queue.JobID
	for line := range strings.Lines(c.query("SELECT DISTINCT job FROM events WHERE job <> 0")) {
		id, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			c.t.Fatal(err)
		}
		ids = append(ids, queue.JobID(id))
	}
	events, err := st.EventsOf(c.t.Context(), ids)
	if err != nil {
		c.t.Fatal(err)
	}
	type run struct {
		*queue.Started
		at int64
	}
	live := map[queue.ElementID]run{}
	var held []string
	for _, ev := range events {
		id := queue.ElementID{Job: ev.Job, Index: ev.Index}
		switch body := ev.Body.(type) {
		case *queue.Started:
			live[id] = run{body, ev.At.UnixMilli()}
		case *queue.Ended, *queue.Requeued:
			r, runs := live[id]
			if !runs {
				continue // it never ran
			}
			delete(live, id)
			slots, fgpu := 0, int64(0)
			for _, a := range r.Alloc {
				slots += a.Slots
				fgpu += int64(a.FGPU())
			}
			end := ev.At.UnixMilli()
			held = append(held, fmt.Sprintf("%d,%d,%d,%d,%d,%d,%d", ev.Job, ev.Index, r.Attempt, slots, fgpu, r.at, end))
			slotTime += int64(slots) * (end - r.at)
			fgpuTime += fgpu * (end - r.at)
		}
	}
	slices.Sort(held)
	slices.Sort(charged)
	if len(live) > 0 || !slices.Equal(held, charged) {
		c.t.Errorf("charges as job,index,attempt,slots,fgpu,began,ended:\n%s\nby the events:\n%s\nand %d live", strings.Join(charged, "\n"), strings.Join(held, "\n"), len(live))
	}
	return len(held), slotTime, fgpuTime
}

// TestNeverMoreThanTheLimit lets 200 submit at once under a limit of 10 that run, on nodes where 24 would fit, and kills
// batchd in the middle of it. By the events 10 ran at once, and never 11.
func TestNeverMoreThanTheLimit(t *testing.T) {
	c := newCluster(t, "--slots", "12")
	c.must("badmin", "limit", "set", "each-user", "running=10")
	const jobs = 200
	parallel(jobs, func(i int) {
		if i == jobs/2 {
			c.kill9(part{kind: "batchd"})
		}
		if _, err := c.submit("-o", "/dev/null", "sleep 0.3"); err != nil {
			t.Error(err)
		}
	})
	done := func() int {
		all, _ := c.jobs()
		n := 0
		for _, j := range all {
			if j.state == "DONE" {
				n++
			}
		}
		return n
	}
	c.until("half of them are done", 2*time.Minute, func() bool { return done() >= jobs/2 })
	c.mustKill9(part{kind: "batchd"})
	c.until("all are done", 2*time.Minute, func() bool { return done() == jobs })
	got := c.query(`SELECT max(running) || ' at most, ' || count(*) FILTER (WHERE kind = 'started') || ' starts' FROM (SELECT kind,
		sum(CASE WHEN kind = 'started' THEN 1 WHEN kind IN ('ended', 'requeued') THEN -1 ELSE 0 END) OVER (ORDER BY seq) AS running FROM events) e`)
	if want := "10 at most, 200 starts"; got != want {
		t.Errorf("the events have %s, want %s", got, want)
	}
	c.settled()
}
