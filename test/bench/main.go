// Command bench measures, and asserts nothing: the scheduler alone, in this process (scheduler.go); the fence on the
// simulated driver (fence.go); and a whole cluster as its users meet it, with real commands, a real database and real
// jobs. It prints rates, latencies, ratios and memory. "make bench" runs it.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: bench [-only scheduler|cluster|fence|proxy] [DIR]\nDIR (default: out) is where the programs are, and where plots go.")
	}
	only := flag.String("only", "", "")
	flag.Parse()
	if known := slices.Contains([]string{"", "scheduler", "cluster", "fence", "proxy"}, *only); !known || flag.NArg() > 1 {
		flag.Usage()
		os.Exit(2)
	}
	dir := "out"
	if flag.NArg() == 1 {
		dir = flag.Arg(0)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only, dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures all parts, or only one.
func run(ctx context.Context, only, dir string) error {
	if only == "" || only == "scheduler" {
		if err := benchScheduler(ctx, os.Stdout, dir); err != nil {
			return err
		}
	}
	if only == "" || only == "fence" {
		if err := benchFence(ctx, os.Stdout, dir); err != nil {
			return err
		}
	}
	if only == "" || only == "proxy" {
		if err := benchProxy(ctx, dir); err != nil {
			return err
		}
	}
	if only == "" || only == "cluster" {
		return benchCluster(ctx, dir)
	}
	return nil
}

// bench is one cluster and where its programs are.
type bench struct {
	ctx    context.Context
	bin    string
	state  string
	work   string
	daemon *exec.Cmd
	socket string
}

// benchCluster measures a cluster of the programs in bin.
func benchCluster(ctx context.Context, bin string) error {
	dir, err := os.MkdirTemp("", "fairslice-bench.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	bin, err = filepath.Abs(bin)
	if err != nil {
		return err
	}
	b := &bench{ctx: ctx, bin: bin, state: filepath.Join(dir, "cluster"), work: filepath.Join(dir, "work")}
	if err := os.Mkdir(b.work, 0o755); err != nil {
		return err
	}
	if err := b.start(); err != nil {
		return err
	}
	defer b.stop()
	for _, step := range []func() error{b.submitRates, b.array, b.latency, b.restart} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// start runs a cluster of 4 nodes and waits until it takes jobs.
func (b *bench) start(more ...string) error {
	b.daemon = exec.CommandContext(b.ctx, filepath.Join(b.bin, "batchd"), append([]string{"dev", "--state", b.state, "--nodes", "4", "--slots", "4"}, more...)...)
	b.daemon.Cancel = func() error { return b.daemon.Process.Signal(syscall.SIGTERM) }
	out, err := b.daemon.StdoutPipe()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(filepath.Dir(b.state), "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	b.daemon.Stderr = log
	if err := b.daemon.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the cluster did not start: %w", err)
	}
	_, addr, ok := strings.Cut(strings.TrimSpace(line), "FAIRSLICE_ADDR=")
	if !ok {
		return fmt.Errorf("unexpected line %q", line)
	}
	b.socket = addr
	return os.Setenv("FAIRSLICE_ADDR", addr)
}

func (b *bench) stop() {
	_ = b.daemon.Process.Signal(syscall.SIGTERM)
	_ = b.daemon.Wait()
}

// command runs one of our commands and returns its output.
func (b *bench) command(args ...string) (string, error) {
	cmd := exec.CommandContext(b.ctx, filepath.Join(b.bin, args[0]), args[1:]...)
	cmd.Dir = b.work
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// submitRates measures bsub, as a process for each job: one after the other, and from four loops.
func (b *bench) submitRates() error {
	const n = 300
	loop := func(count int) error {
		for range count {
			if _, err := b.command("bsub", "-H", "-o", "/dev/null", "true"); err != nil {
				return err
			}
		}
		return nil
	}
	if err := loop(50); err != nil { // the database's first pages and plans are not what is measured
		return err
	}
	began := time.Now()
	if err := loop(n); err != nil {
		return err
	}
	fmt.Printf("bsub, sequential:              %7.0f jobs/s\n", n/time.Since(began).Seconds())
	began = time.Now()
	var wg sync.WaitGroup
	var failed error
	var mu sync.Mutex
	for range 4 {
		wg.Go(func() {
			if err := loop(n); err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	fmt.Printf("bsub, 4 parallel loops:        %7.0f jobs/s\n", 4*n/time.Since(began).Seconds())
	if failed != nil {
		return failed
	}
	_, err := b.command("bkill", "0")
	return err
}

// array compares an array of 2,000 times true with xargs on the bare command, in the same run.
func (b *bench) array() error {
	const n = 2000
	began := time.Now()
	xargs := exec.CommandContext(b.ctx, "sh", "-c", fmt.Sprintf("seq %d | xargs -P2 -n1 true", n))
	if err := xargs.Run(); err != nil {
		return fmt.Errorf("xargs: %w", err)
	}
	bare := time.Since(began)
	began = time.Now()
	if _, err := b.command("bsub", "-K", "-J", fmt.Sprintf("a[1-%d]", n), "-o", "/dev/null", "true"); err != nil {
		return err
	}
	ours := time.Since(began)
	fmt.Printf("array of %d true, 4 nodes:   %7.2f s; xargs -P2 %.2f s; ratio %.1f; %.0f elements/s\n",
		n, ours.Seconds(), bare.Seconds(), ours.Seconds()/bare.Seconds(), n/ours.Seconds())
	return nil
}

// latency measures from before bsub is executed to the job's first instruction, which makes a file.
func (b *bench) latency() error {
	for _, kind := range []struct {
		name  string
		count int
		args  []string
	}{
		{"bare", 200, nil},
		{"in a container", 40, []string{"-image", "sample"}},
	} {
		var took []time.Duration
		for i := range kind.count {
			file := filepath.Join(b.work, fmt.Sprintf("first.%d", i))
			_ = os.Remove(file)
			args := append([]string{"bsub", "-K", "-o", "/dev/null"}, kind.args...)
			began := time.Now()
			if _, err := b.command(append(args, ": > "+file)...); err != nil {
				return err
			}
			st, err := os.Stat(file)
			if err != nil {
				return err
			}
			took = append(took, st.ModTime().Sub(began))
		}
		slices.Sort(took)
		fmt.Printf("bsub to first instruction, %-15s p50 %.0f ms, p99 %.0f ms (%d jobs)\n", kind.name+":",
			ms(took[len(took)/2]), ms(took[len(took)*99/100]), kind.count)
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// restart measures a batchd that has 100,000 pending jobs: how soon it serves again, its memory, and a full listing.
func (b *bench) restart() error {
	const n = 100_000
	if _, err := b.command("badmin", "qinact", "normal"); err != nil {
		return err
	}
	began := time.Now()
	if err := load(b.ctx, b.socket, n, b.work); err != nil {
		return err
	}
	fmt.Printf("submissions, 32 clients:       %7.0f jobs/s (%d jobs)\n", n/time.Since(began).Seconds(), n)
	pid, err := b.batchd()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	began = time.Now()
	for {
		if _, err := b.command("lsid"); err == nil {
			break
		}
	}
	served := time.Since(began)
	pid, err = b.batchd()
	if err != nil {
		return err
	}
	fmt.Printf("restart with %d pending:   %7.2f s to serve again after kill -9; memory %s\n", n, served.Seconds(), memory(pid))
	began = time.Now()
	out, err := b.command("bjobs", "-u", "all", "-w")
	if err != nil {
		return err
	}
	fmt.Printf("bjobs -u all -w:               %7.2f s for %d lines\n", time.Since(began).Seconds(), strings.Count(out, "\n"))
	return nil
}

// batchd finds the daemon's process: the one that runs with the cluster's configuration.
func (b *bench) batchd() (int, error) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range paths {
		text, err := os.ReadFile(p)
		args := strings.Split(string(text), "\x00")
		if err == nil && len(args) > 2 && filepath.Base(args[0]) == "batchd" && args[2] == filepath.Join(b.state, "fairslice.toml") {
			return strconv.Atoi(filepath.Base(filepath.Dir(p)))
		}
	}
	return 0, fmt.Errorf("batchd is not running")
}

func memory(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}
