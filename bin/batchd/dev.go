package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"fairslice/etc"
	"fairslice/nodes/fgpu/simdriver"
)

func devCommand() *cli.Command {
	return &cli.Command{
		Name:  "dev",
		Usage: "run a whole cluster on this machine, in the foreground, until Ctrl-C",
		Description: "Starts a private PostgreSQL, the batch daemon and N node daemons. A part that dies is started again.\n" +
			"Prints one line on standard output when jobs can be submitted. As an ordinary user it works too, with less enforced.\n\n" +
			"Example: batchd dev --state /tmp/fs --nodes 2 --slots 4 --sim-gpus 1x8GiB --fgpu-per-gpu 2",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "state", Usage: "state `DIR`; made when missing, kept afterwards", Required: true},
			&cli.IntFlag{Name: "nodes", Value: 1, Usage: "how many node daemons"},
			&cli.IntFlag{Name: "slots", Usage: "slots of each node (default: this machine's cores)"},
			&cli.StringFlag{Name: "mem", Usage: "memory of each node, such as 4GiB (default: this machine's, shared out)"},
			&cli.StringFlag{Name: "sim-gpus", Usage: "SIMULATED GPUs of each node, `COUNTxSIZE` such as 2x8GiB"},
			&cli.StringFlag{Name: "sim-mig", Usage: "MIG instances of the simulated GPUs, such as `0:3g.4gb,3g.4gb`: GPU 0 has two"},
			&cli.StringFlag{Name: "gpu-mode", Value: "auto", Usage: "how slices are fenced, as gpu_mode in fairslice.toml: `MODE` auto, mig, mps, shim or count"},
			&cli.StringFlag{Name: "fgpu-per-gpu", Value: "1", Usage: "how many fGPU one GPU is"},
			&cli.StringFlag{Name: "extra", Usage: "`FILE` of further configuration (TOML), such as [[queue]] sections"},
			&cli.StringFlag{Name: "metrics", Usage: "host:port of batchd's metrics (default: none)"},
			&cli.StringFlag{Name: "web", Usage: "host:port of the web page, such as 127.0.0.1:8080 (default: none); blogin prints a link to log in"},
			&cli.DurationFlag{Name: "terminate-interval", Value: 10 * time.Second, Usage: "time between SIGINT, SIGTERM and SIGKILL"},
		},
		Action: dev,
	}
}

// cluster is what batchd dev runs.
type cluster struct {
	dir    string
	bin    string // where the programs are
	log    *slog.Logger
	run    string // where the nodes keep what they need of running jobs; "" for their state directories
	config string
	socket string
}

func dev(c *cli.Context) error {
	dir, err := filepath.Abs(c.String("state"))
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	d := &cluster{dir: dir, bin: filepath.Dir(self), log: newLogger("info"),
		config: filepath.Join(dir, "fairslice.toml"), socket: filepath.Join(dir, "batchd.sock")}
	d.run = runDir(dir)
	names, err := d.writeConfig(c)
	if err != nil {
		return err
	}
	env, err := d.simulate(c)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "batchd dev: not root, so: jobs of other users are refused by noded; memory limits are watched, not held; CPU shares are not set")
	}
	d.live(c.Context, names, env)
	d.removeRunDir(names)
	return nil
}

// live keeps every part alive until ctx ends.
func (d *cluster) live(ctx context.Context, names []string, gpuEnv map[string][]string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var daemon, nodesGroup sync.WaitGroup
	// The nodes end first, while batchd can still take their last reports.
	nodeCtx, stopNodes := context.WithCancel(context.WithoutCancel(ctx))
	daemonCtx, stopDaemon := context.WithCancel(context.WithoutCancel(ctx))
	defer stopNodes()
	defer stopDaemon()
	daemon.Go(func() { d.keep(daemonCtx, "batchd", nil, filepath.Join(d.bin, "batchd"), "--config", d.config) })
	for _, n := range names {
		nodesGroup.Go(func() {
			d.keep(nodeCtx, n, gpuEnv[n], filepath.Join(d.bin, "noded"), "--config", filepath.Join(d.dir, n+".toml"), "--stop-jobs")
		})
	}
	go d.announce(ctx, len(names))
	<-ctx.Done()
	stopNodes()
	nodesGroup.Wait()
	stopDaemon()
	daemon.Wait()
}

// keep runs a program, again whenever it ends, until ctx ends; then it asks it to stop and waits.
func (d *cluster) keep(ctx context.Context, name string, env []string, program string, args ...string) {
	for wait := 100 * time.Millisecond; ctx.Err() == nil; {
		began := time.Now()
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), env...)
		cmd.Stderr = os.Stderr
		// Its own group: Ctrl-C reaches us alone, and we end the parts in order. If we are killed, so are they.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
		err := startPinned(cmd)
		if err == nil {
			done := make(chan error, 1)
			go func() { done <- cmd.Wait() }()
			select {
			case err = <-done:
			case <-ctx.Done():
				_ = cmd.Process.Signal(syscall.SIGTERM)
				select {
				case <-done:
				case <-time.After(30 * time.Second):
					_ = cmd.Process.Kill()
					<-done
				}
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > 5*time.Second {
			wait = 100 * time.Millisecond
		}
		d.log.Warn("part of the cluster ended, starting it again", "part", name, "error", err, "wait", wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// announce prints the one line that scripts wait for, when every node can take jobs.
func (d *cluster) announce(ctx context.Context, want int) {
	for ctx.Err() == nil {
		if countUp(ctx, d.socket) >= want {
			fmt.Printf("ready: export FAIRSLICE_ADDR=unix://%s\n", d.socket)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// simulate makes the environment in which the nodes find simulated GPUs.
func (d *cluster) simulate(c *cli.Context) (map[string][]string, error) {
	spec := c.String("sim-gpus")
	if spec == "" {
		return nil, nil
	}
	out := map[string][]string{}
	for _, n := range nodeNames(c.Int("nodes")) {
		env, err := simdriver.Env(spec, n)
		if err != nil {
			return nil, err
		}
		state := filepath.Join(d.dir, n, "gpus")
		if err := os.MkdirAll(state, 0o755); err != nil {
			return nil, err
		}
		out[n] = append(env, simdriver.StateVar+"="+state)
		if mig := c.String("sim-mig"); mig != "" {
			out[n] = append(out[n], simdriver.MIGVar+"="+mig)
		}
	}
	return out, nil
}

func nodeNames(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("node%d", i+1))
	}
	return out
}

// writeConfig writes the daemon's and the nodes' configuration; what a user changed in them by hand is
// kept only in the file given by --extra.
func (d *cluster) writeConfig(c *cli.Context) ([]string, error) {
	n := c.Int("nodes")
	if n < 1 || n > 64 {
		return nil, fmt.Errorf("--nodes %d: want 1 to 64", n)
	}
	extra := ""
	if f := c.String("extra"); f != "" {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		extra = string(data)
	}
	image, err := d.sampleImage(c.Context)
	if err != nil {
		fmt.Fprintln(os.Stderr, "batchd dev: no sample image:", err)
	}
	var b strings.Builder
	top := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	top("# written by batchd dev; changes belong in the file given by --extra")
	if !strings.Contains(extra, "cluster =") {
		top("cluster = %q", "dev")
	}
	top("state_dir = %q\nsocket = %q\nmetrics = %q", d.dir, d.socket, c.String("metrics"))
	top("heartbeat = \"2s\"\nnode_timeout = \"10s\"")
	top("terminate_interval = %q", c.Duration("terminate-interval").String())
	top("%s", extra)
	if !strings.Contains(extra, "[gpu]") {
		top("[gpu]\nfgpu_per_gpu = %q", c.String("fgpu-per-gpu"))
	}
	if web := c.String("web"); web != "" && !strings.Contains(extra, "[web]") {
		top("[web]\nlisten = %q\napps_domain = \"localhost\"", web) // browsers take every name below it for this machine
	}
	if !strings.Contains(extra, "[[queue]]") {
		top("[[queue]]\nname = \"normal\"\ndescription = \"For jobs that say no queue.\"\npriority = 30\ndefault_run_limit = \"24h\"\nunfenced = \"watchdog\"")
	}
	if image != "" && !strings.Contains(extra, "[[image]]") {
		top("[[image]]\nname = \"sample\"\nfile = %q", image)
	}
	if err := d.writeChecked(d.config, b.String()); err != nil {
		return nil, err
	}
	names := nodeNames(n)
	for _, name := range names {
		if err := d.writeNode(c, name, n); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (d *cluster) writeNode(c *cli.Context, name string, n int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "terminate_interval = %q\n[node]\nname = %q\nbatchd = %q\nstate_dir = %q\nmetrics = \"127.0.0.1:0\"\ncgroup_parent = %q\nreconnect = \"1s\"\n",
		c.Duration("terminate-interval").String(), name, "unix://"+d.socket, filepath.Join(d.dir, name), "fairslice-dev/"+name+"-"+shortHash(d.dir))
	if d.run != "" {
		fmt.Fprintf(&b, "run_dir = %q\n", filepath.Join(d.run, name))
	}
	if s := c.Int("slots"); s > 0 {
		fmt.Fprintf(&b, "slots = %d\n", s)
	}
	if m := c.String("mem"); m != "" {
		fmt.Fprintf(&b, "memory = %q\n", m)
	} else {
		fmt.Fprintf(&b, "memory = \"%dMiB\"\n", shareOfMemory(n)>>20)
	}
	if c.String("sim-gpus") != "" {
		lib, err := d.simLibrary(c.Context)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "nvml_library = %q\ngpu_mode = %q\n", lib, c.String("gpu-mode"))
	}
	return d.writeChecked(filepath.Join(d.dir, name+".toml"), b.String())
}

func (d *cluster) writeChecked(file, text string) error {
	if _, err := etc.Parse(file, []byte(text)); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}
