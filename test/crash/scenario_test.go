package crash

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// gate is a job that writes "began", waits until it is opened, and then does the rest.
type gate struct {
	c    *cluster
	name string
	id   int
}

// submitGate returns when the job runs. Each run adds a line to NAME.runs; the output goes to NAME.out.
func submitGate(c *cluster, name, rest string, options ...string) *gate {
	c.t.Helper()
	g := &gate{c: c, name: name}
	if err := unix.Mkfifo(c.file(name+".go"), 0o600); err != nil {
		c.t.Fatal(err)
	}
	script := fmt.Sprintf("echo run >> %[1]s.runs; echo text of %[1]s; read x < %[1]s.go; %[2]s", name, rest)
	g.id = c.mustSubmit(append(append([]string{"-o", name + ".out"}, options...), script)...)
	g.runs(1)
	return g
}

func (g *gate) runs(n int) {
	g.c.t.Helper()
	g.c.until(fmt.Sprintf("%s has been run %d times", g.name, n), 40*time.Second, func() bool { return g.count() >= n })
}

func (g *gate) count() int { return strings.Count(g.c.read(g.name+".runs"), "run\n") }

func (g *gate) open() {
	g.c.t.Helper()
	if err := os.WriteFile(g.c.file(g.name+".go"), []byte("go\n"), 0); err != nil {
		g.c.t.Fatal(err)
	}
}

// want checks the end of a job that must have been run once.
func (g *gate) want(state string, code int) {
	g.c.t.Helper()
	j := g.c.ends(g.id)
	if j.state != state || j.code != code {
		g.c.t.Errorf("%s ended as %+v, want %s with code %d", g.name, j, state, code)
	}
	g.c.until("the job's report of "+g.name, 5*time.Second, func() bool { return strings.Contains(g.c.read(g.name+".out"), "Subject: Job") })
	text := g.c.read(g.name + ".out")
	if strings.Count(text, "\ntext of "+g.name+"\n")+strings.Count("\n"+text[:min(len(text), 100)], "\ntext of "+g.name+"\n") != 1 {
		g.c.t.Errorf("output of %s:\n%s", g.name, text)
	}
	if n := g.count(); n != 1 {
		g.c.t.Errorf("%s was run %d times", g.name, n)
	}
}

func (c *cluster) running(id int) { // as the user sees it
	c.t.Helper()
	c.until(fmt.Sprintf("job %d is RUN", id), 30*time.Second, func() bool { return c.job(id).state == "RUN" })
}

func (c *cluster) nodeOf(id int) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(c.job(id).host, "node"))
	if n == 0 {
		c.t.Fatalf("job %d runs nowhere", id)
	}
	return n
}

func TestScenarios(t *testing.T) {
	c := newCluster(t)
	for _, s := range []struct {
		name string
		run  func(*cluster)
	}{
		{"a killed noded loses no job", killNoded},
		{"a job that ends while noded is down keeps its status", endWithoutNoded},
		{"a killed shepherd loses no status", killShepherd},
		{"a killed batchd has the job whose id was printed", killBatchd},
		{"a killed database makes submissions wait", killDatabase},
		{"a node that does not answer is UNKWN and comes back", freezeNode},
		{"a rerunnable job moves to another node", moveRerunnable},
		{"the loss of noded and shepherd is told as such", killBothKeepers},
	} {
		if !t.Run(s.name, func(t *testing.T) {
			defer func(outer *testing.T) { c.t = outer }(c.t)
			c.t = t
			c.until("the cluster is up", 30*time.Second, c.up)
			s.run(c)
			if !t.Failed() {
				c.until("the cluster is up", 30*time.Second, c.up)
				c.settled()
			}
		}) {
			return // what follows would only repeat it
		}
	}
	took := c.stop()
	if took > 10*time.Second {
		t.Errorf("an idle cluster took %s to stop", took)
	}
	c.gone()
}

func killNoded(c *cluster) {
	good, bad := submitGate(c, "a1", "exit 0"), submitGate(c, "a2", "exit 7")
	c.running(bad.id)
	for _, id := range []int{good.id, bad.id} {
		c.kill9(part{"noded", c.nodeOf(id)})
	}
	time.Sleep(100 * time.Millisecond)
	if good.count() != 1 {
		c.t.Error("not once")
	}
	c.until("the cluster is up", 30*time.Second, c.up)
	c.running(good.id)
	c.running(bad.id)
	good.open()
	bad.open()
	good.want("DONE", -1)
	bad.want("EXIT", 7)
}

func endWithoutNoded(c *cluster) {
	g := submitGate(c, "b1", "exit 9")
	c.running(g.id)
	node := c.nodeOf(g.id)
	supervisor := c.dev.Process
	_ = supervisor.Signal(syscall.SIGSTOP) // so that noded stays away
	c.mustKill9(part{"noded", node})
	g.open()
	time.Sleep(300 * time.Millisecond)
	_ = supervisor.Signal(syscall.SIGCONT)
	g.want("EXIT", 9)
}

func killShepherd(c *cluster) {
	var all []*gate
	for i := range 3 {
		all = append(all, submitGate(c, fmt.Sprintf("c%d", i), "exit "+strconv.Itoa(i)))
	}
	killed := submitGate(c, "ck", "kill -TERM $$")
	c.running(killed.id)
	for n := range nodeCount {
		c.mustKill9(part{"shepherd", n + 1})
	}
	all[0].open()
	time.Sleep(200 * time.Millisecond)
	for _, g := range append(all[1:], killed) {
		g.open()
	}
	all[0].want("DONE", -1)
	all[1].want("EXIT", 1)
	all[2].want("EXIT", 2)
	killed.want("EXIT", 128+15)
	after := submitGate(c, "ca", "exit 3") // a new shepherd serves
	after.open()
	after.want("EXIT", 3)
}

func killBatchd(c *cluster) {
	for i := range 3 {
		name := fmt.Sprintf("d%d", i)
		id := c.mustSubmit("-o", name+".out", "echo run >> "+name+".runs; exit "+strconv.Itoa(i+1))
		c.mustKill9(part{kind: "batchd"})
		if j := c.ends(id); j.state != "EXIT" || j.code != i+1 {
			c.t.Errorf("%+v", j)
		}
		if c.read(name+".runs") != "run\n" {
			c.t.Errorf("runs: %q", c.read(name+".runs"))
		}
	}
}

func killDatabase(c *cluster) {
	g := submitGate(c, "e", "exit 4")
	c.running(g.id)
	c.mustKill9(part{kind: "postgres"})
	id := c.mustSubmit("-o", "e2.out", "echo run >> e2.runs")
	g.open()
	g.want("EXIT", 4)
	if j := c.ends(id); j.state != "DONE" || c.read("e2.runs") != "run\n" {
		c.t.Errorf("%+v, runs %q", j, c.read("e2.runs"))
	}
}

func freezeNode(c *cluster) {
	g := submitGate(c, "f", "exit 5")
	c.running(g.id)
	pid, _ := c.find(part{"noded", c.nodeOf(g.id)})
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		c.t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGCONT)
	c.until("the job is UNKWN", 20*time.Second, func() bool { return c.job(g.id).state == "UNKWN" })
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		c.t.Fatal(err)
	}
	c.running(g.id)
	g.open()
	g.want("EXIT", 5)
}

func moveRerunnable(c *cluster) {
	g := submitGate(c, "g", "exit 6", "-r")
	c.running(g.id)
	first := c.nodeOf(g.id)
	pid, _ := c.find(part{"noded", first})
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		c.t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGCONT)
	g.runs(2)
	c.running(g.id)
	if second := c.nodeOf(g.id); second == first {
		c.t.Errorf("it runs on node%d again", second)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		c.t.Fatal(err)
	}
	c.until("the cluster is up", 30*time.Second, c.up)
	// The first run is killed: only the second is there to pass the gate.
	c.until("the first run is gone", 20*time.Second, func() bool {
		entries, _ := os.ReadDir(c.nodeDir(first) + "/jobs")
		return len(entries) == 0
	})
	g.open()
	if j := c.ends(g.id); j.state != "EXIT" || j.code != 6 {
		c.t.Errorf("%+v", j)
	}
	if n := g.count(); n != 2 {
		c.t.Errorf("run %d times", n)
	}
}

func killBothKeepers(c *cluster) {
	lost, again := submitGate(c, "h1", "exit 0"), submitGate(c, "h2", "exit 8", "-r")
	c.running(lost.id)
	c.running(again.id)
	_ = c.dev.Process.Signal(syscall.SIGSTOP)
	for n := range nodeCount {
		c.mustKill9(part{"noded", n + 1})
		c.kill9(part{"shepherd", n + 1}) // one without jobs has ended by itself
	}
	_ = c.dev.Process.Signal(syscall.SIGCONT)
	c.until("the cluster is up", 30*time.Second, c.up)
	c.running(lost.id) // it still runs, and its slots are still its own
	lost.open()
	j := c.ends(lost.id)
	if j.state != "EXIT" || !strings.HasPrefix(j.why, "TERM_UNKNOWN") {
		c.t.Errorf("%+v, want EXIT with TERM_UNKNOWN", j)
	}
	if lost.count() != 1 {
		c.t.Errorf("run %d times", lost.count())
	}
	for again.count() < 3 && c.job(again.id).state != "EXIT" { // the first run, whose status nobody can know, then another
		again.open()
		time.Sleep(200 * time.Millisecond)
	}
	if j := c.ends(again.id); j.state != "EXIT" || j.code != 8 || again.count() < 2 {
		c.t.Errorf("%+v after %d runs", j, again.count())
	}
}

func TestStopEndsEverything(t *testing.T) {
	c := newCluster(t)
	id := c.mustSubmit("-o", "s.out", "trap '' INT TERM HUP; sleep 300 & sleep 300")
	contained := c.mustSubmit("-o", "s2.out", "-image", "sample", "sleep 300")
	again := c.mustSubmit("-r", "-o", "s3.out", "sleep 300")
	for _, one := range []int{id, contained, again} {
		c.running(one)
	}
	if took := c.stop(); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	} else {
		t.Logf("stopped in %s", took)
	}
	c.gone()
	for _, g := range c.groups() {
		if base := g[strings.LastIndexByte(g, '/')+1:]; !strings.HasPrefix(base, "node") {
			t.Errorf("cgroup %s is left", g)
		}
	}
	c.start()
	t.Logf("after a restart: %+v %+v %+v", c.job(id), c.job(contained), c.job(again))
	for _, one := range []int{id, contained} {
		if j := c.ends(one); j.state != "EXIT" {
			t.Errorf("%+v", j)
		}
	}
	if j := c.job(again); j.state != "RUN" && j.state != "PEND" && j.state != "EXIT" {
		t.Errorf("%+v", j)
	}
	_, _ = c.command("bkill", strconv.Itoa(again))
	c.ends(again)
	c.settled()
}
