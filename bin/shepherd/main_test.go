package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairslice/nodes/cgroup"
	"fairslice/nodes/shepherd"
)

// setUp gives what a node daemon has: groups, and a shepherd.
func setUp(t testing.TB) (context.Context, *cgroup.Manager, *shepherd.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	groups, err := cgroup.New(fmt.Sprintf("fairslice-test-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { groups.Remove() })
	program := filepath.Join(t.TempDir(), "shepherd")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c, err := shepherd.Spawn(ctx, program, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return ctx, groups, c
}

func group(t testing.TB, m *cgroup.Manager, name string) *cgroup.Group {
	t.Helper()
	g, err := m.Create(name, cgroup.Limits{Memory: 64 << 20, CPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Kill(ctx); err != nil {
			t.Error(err)
		}
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func TestJobIsBornInItsGroup(t *testing.T) {
	ctx, groups, c := setUp(t)
	t.Logf("mode %v %s", groups.Mode(), groups.Reason())
	g := group(t, groups, "1.1")
	log := filepath.Join(t.TempDir(), "log")
	_, err := c.Start(ctx, shepherd.Start{
		Key: "1.1", Argv: []string{"/bin/sh", "-c", "cat /proc/self/cgroup; echo ready; exec setsid -w sleep 300"}, Env: g.Env(), Cgroup: g.Ref(),
		Stdout: shepherd.Output{Path: log},
	})
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for !strings.HasSuffix(string(text), "ready\n") && err == nil && ctx.Err() == nil {
		text, err = os.ReadFile(log)
	}
	if want := map[cgroup.Mode]string{cgroup.V1: "memory:/fairslice-test", cgroup.V2: "::/"}[groups.Mode()]; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%s %v", text, err)
	}
	for pids := []int(nil); len(pids) != 2; { // setsid, and its child
		if pids, err = g.Pids(); err != nil || ctx.Err() != nil {
			t.Fatal(pids, err)
		}
	}
	if err := g.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if e := <-c.Events(); syscall.WaitStatus(e.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("%+v", e)
	}
	if err := c.Ack(ctx, "1.1"); err != nil {
		t.Error(err)
	}
}

// BenchmarkJob is what a node spends on one bare job: a limited group, the job, its status, and the group's end; two jobs at a time.
func BenchmarkJob(b *testing.B) {
	_, groups, c := setUp(b)
	ctx := context.Background()
	jobs, done := make(chan string), make(chan struct{})
	ended := map[string]chan struct{}{}
	for i := range b.N {
		ended[fmt.Sprint(i)] = make(chan struct{})
	}
	go func() {
		for e := range c.Events() {
			close(ended[e.Key])
		}
	}()
	for range 2 {
		go func() {
			for key := range jobs {
				g, err := groups.Create(key, cgroup.Limits{Memory: 64 << 20, CPUs: 1})
				if err == nil {
					_, err = c.Start(ctx, shepherd.Start{Key: key, Argv: []string{"/bin/true"}, Env: g.Env(), Cgroup: g.Ref()})
				}
				if err != nil {
					b.Error(err)
					continue
				}
				<-ended[key]
				if err := c.Ack(ctx, key); err != nil {
					b.Error(err)
				}
				if err := g.Remove(); err != nil {
					b.Error(err)
				}
			}
			done <- struct{}{}
		}()
	}
	b.ResetTimer()
	for i := range b.N {
		jobs <- fmt.Sprint(i)
	}
	close(jobs)
	<-done
	<-done
}
