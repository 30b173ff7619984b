package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"fairslice/nodes/fgpu"
	"fairslice/nodes/fgpu/simdriver"
	"fairslice/nodes/fgpu/tenant"
)

// fence is a simulated GPU, and the regions of the slices that are measured on it, without containers and without noded: what is
// measured is the shim alone.
type fence struct {
	*tenant.Machine
	ctx     context.Context
	to      io.Writer
	work    string
	uuid    string
	regions int
}

const (
	simulatedContext = 1 << 20 // bytes of a context (FAIRSLICE_SIM_CONTEXT): small, so that 200 of them fit
	fenceRounds      = 5       // of each latency; the median is printed
	shareSeconds     = 2       // for each share that is measured
	shareBlocks      = 200     // a fifth of a millisecond of the simulated device
)

// benchFence measures the fence on the simulated driver: what it costs, how exact it is.
func benchFence(ctx context.Context, to io.Writer, bin string) (err error) {
	bin, err = filepath.Abs(bin)
	if err != nil {
		return err
	}
	f := &fence{Machine: &tenant.Machine{Programs: bin, Driver: filepath.Join(bin, "simdriver")}, ctx: ctx, to: to}
	if _, err := os.Stat(filepath.Join(bin, tenant.Program)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no %s in %s: run make build", tenant.Program, bin)
	}
	if f.work, err = os.MkdirTemp("", "fairslice-bench."); err != nil {
		return err
	}
	defer os.RemoveAll(f.work)
	if f.Env, err = simdriver.Env("1x8GiB", "bench"); err != nil {
		return err
	}
	f.Env = append(f.Env, simdriver.StateVar+"="+f.work, "FAIRSLICE_SIM_CONTEXT=1MiB")
	if f.uuid, err = f.UUID(ctx); err != nil {
		return err
	}
	fmt.Fprintln(to, "fence: on the simulated driver, which gives the costs of the shim but not those of a real driver beside it")
	for _, step := range []func() error{f.costs, f.attach, f.overshoot, f.shares} {
		if err := step(); err != nil {
			return fmt.Errorf("fence: %w", err)
		}
	}
	return nil
}

// region makes one more region. Share and phase are in 1/100 percent.
func (f *fence) region(memory int64, share, phase int) (*fgpu.Region, error) {
	f.regions++
	return f.Make(filepath.Join(f.work, fmt.Sprint("region", f.regions)), tenant.Slice{
		UUID: f.uuid, Memory: memory, Share: share, Phase: phase, Context: simulatedContext,
	})
}

// cost is one latency in nanoseconds.
type cost struct{ p50, p99 int64 }

// median takes each figure's median.
func median(all []cost) cost {
	pick := func(of func(cost) int64) int64 {
		n := make([]int64, len(all))
		for i, c := range all {
			n[i] = of(c)
		}
		slices.Sort(n)
		return n[len(n)/2]
	}
	return cost{pick(func(c cost) int64 { return c.p50 }), pick(func(c cost) int64 { return c.p99 })}
}

// costs prints what a launch, an allocation and a free take, without the fence and with it. The two take turns, so that what
// else the machine does falls on both. A slice of the whole GPU's time has an open gate: the launch that is not made to wait.
func (f *fence) costs() error {
	r, err := f.region(4*gib, fgpu.Whole, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	kinds := []struct{ name, begins string }{
		{"empty launch", "latency"}, {"cuMemAlloc 1 MiB", "alloclat alloc"}, {"cuMemFree 1 MiB", "alloclat free"},
	}
	plain, fenced := make([][]cost, len(kinds)), make([][]cost, len(kinds))
	for range fenceRounds {
		for _, side := range []struct {
			region string
			to     [][]cost
		}{{"", plain}, {r.Dir(), fenced}} {
			lines, err := f.Run(f.ctx, side.region, "latency", "100000", "alloclat", "20000")
			if err != nil {
				return err
			}
			for i, k := range kinds {
				l := tenant.Find(lines, k.begins)
				if !l.Has("ok") {
					return fmt.Errorf("%s: %q", k.name, lines)
				}
				side.to[i] = append(side.to[i], cost{l.Number("p50"), l.Number("p99")})
			}
		}
	}
	w := newTable(f.to)
	fmt.Fprintln(w, "ns of one call\tp50 plain\tp50 fenced\tp50 added\tp99 plain\tp99 fenced\tp99 added\t")
	for i, k := range kinds {
		a, b := median(plain[i]), median(fenced[i])
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", k.name, a.p50, b.p50, b.p50-a.p50, a.p99, b.p99, b.p99-a.p99)
	}
	return flush(w, f.to)
}

// attach prints how long it takes until 200 processes, let go at once, each have a context and 64 KiB.
func (f *fence) attach() error {
	const processes = 200
	r, err := f.region(4*gib, fgpu.Whole, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	w := newTable(f.to)
	fmt.Fprintln(w, "attach at once\tplain ms\tfenced ms\t")
	var took [2]time.Duration
	for i, region := range []string{"", r.Dir()} {
		lines, err := f.Run(f.ctx, region, "spawn", fmt.Sprint(processes), "64K")
		if err != nil {
			return err
		}
		took[i] = time.Duration(tenant.Find(lines, "spawn").Number("ns"))
	}
	fmt.Fprintf(w, "%d processes\t%.0f\t%.0f\t\n", processes, ms(took[0]), ms(took[1]))
	return flush(w, f.to)
}

// overshoot prints, for each family of allocations, how many bytes of its limit a slice got and how many beyond it: by the driver's figures.
func (f *fence) overshoot() error {
	const limit = 2 * gib
	w := newTable(f.to)
	fmt.Fprintln(w, "memory of 2 GiB\tgot MiB\tleft bytes\tovershoot bytes\t")
	for _, family := range []string{"malloc", "pitch", "async", "pool", "vmm", "array", "mipmap", "managed", "graph"} {
		if err := f.fill(w, family, limit); err != nil {
			return err
		}
	}
	r, err := f.region(limit, fgpu.Whole, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	lines, err := f.Run(f.ctx, r.Dir(), "threads", "64", "2000", "4M")
	if err != nil {
		return err
	}
	l := tenant.Find(lines, "threads")
	fmt.Fprintf(w, "64 threads race\t%d\t-\t%d\t\n", l.Number("most")>>20, l.Number("over"))
	return flush(w, f.to)
}

func (f *fence) fill(w io.Writer, family string, limit int64) error {
	r, err := f.region(limit, fgpu.Whole, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	full, err := f.Talk(f.ctx, r.Dir())
	if err != nil {
		return err
	}
	defer full.Kill()
	l, err := full.Do("fill " + family)
	if err != nil || !l.Has("ok") {
		return fmt.Errorf("fill %s: %s (%v)", family, l, err)
	}
	nvml, err := f.Talk(f.ctx, "")
	if err != nil {
		return err
	}
	defer nvml.Kill()
	held, err := nvml.Holding()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t\n", family, l.Number("total")>>20, l.Number("after"), max(0, held[full.PID()]-limit))
	return nil
}

// shares prints what part of the simulated device greedy tenants got: one whose share is given, alone and beside neighbours that
// share the rest.
func (f *fence) shares() error {
	w := newTable(f.to)
	fmt.Fprintln(w, "share %\tlaunches\talone %\terror %\t+1 %\terror %\t+2 %\terror %\t+3 %\terror %\t")
	for _, how := range []string{"eager", "graph"} {
		whole, err := f.Completed(f.ctx, []string{""}, shareSeconds, shareBlocks, how)
		if err != nil {
			return err
		}
		for _, share := range []int{1000, 2500, 5000, 7500} {
			fmt.Fprintf(w, "%d\t%s\t", share/100, how)
			for neighbours := range 4 {
				got, err := f.beside(share, neighbours, how)
				if err != nil {
					return err
				}
				part := got / whole[0]
				want := float64(share) / fgpu.Whole
				fmt.Fprintf(w, "%.1f\t%+.1f\t", 100*part, 100*(part-want)/want)
			}
			fmt.Fprintln(w)
		}
	}
	return flush(w, f.to)
}

// beside measures the kernels each second of one of share beside neighbours that have the rest, in windows that do not overlap.
func (f *fence) beside(share, neighbours int, how string) (float64, error) {
	var dirs []string
	phase := 0
	for i := range 1 + neighbours {
		part := share
		if i > 0 {
			part = (fgpu.Whole - share) / neighbours
		}
		r, err := f.region(gib, part, phase)
		if err != nil {
			return 0, err
		}
		defer r.Close()
		phase += part
		dirs = append(dirs, r.Dir())
	}
	counts, err := f.Completed(f.ctx, dirs, shareSeconds, shareBlocks, how)
	if err != nil {
		return 0, err
	}
	return counts[0], nil
}
