package tenant_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"fairslice/nodes/fgpu"
	"fairslice/nodes/fgpu/tenant"
)

// crowd is some processes of two jobs that share a GPU, and what is done to them.
type crowd struct {
	t      *testing.T
	m      *tenant.Machine
	random *rand.Rand
	jobs   [2]*fgpu.Region
	limits [2]int64
	lives  [2][]*tenant.Talk
	asked  []*tenant.Talk // have been told something, and have not answered
	told   []string       // what was done since figures agreed, for the message
	nvml   *tenant.Talk
}

const mostProcesses = 4 // of one job

func (c *crowd) command() string {
	f := families[c.random.IntN(len(families))]
	switch n := c.random.IntN(10); {
	case n < 5: // sizes from a few bytes to half the slice; whole granules where a family wants them
		unit := int64(1)
		switch {
		case f.name == "vmm" || f.pooled:
			unit = 2 * mib
		case f.name == "array" || f.name == "mipmap": // whole tiles: what others take the driver does not tell
			unit = 512 << 10
		}
		return fmt.Sprintf("alloc %s %d", f.name, unit*(1+c.random.Int64N(1+c.limits[0]/2/unit>>c.random.IntN(20))))
	case n < 8:
		return fmt.Sprint("free ", c.random.IntN(6))
	case n < 9:
		return "free last"
	}
	return "free all"
}

// step does one thing to one process, or starts or kills one.
func (c *crowd) step() {
	job := c.random.IntN(2)
	lives := c.lives[job]
	if len(lives) == 0 || len(lives) < mostProcesses && c.random.IntN(8) == 0 {
		c.lives[job] = append(lives, talk(c.t, c.m, c.jobs[job].Dir()))
		return
	}
	i := c.random.IntN(len(lives))
	k := lives[i]
	for _, busy := range c.asked {
		if busy == k {
			return
		}
	}
	command := c.command()
	c.told = append(c.told, fmt.Sprintf("%d: %s", k.PID(), command))
	if err := k.Say(command); err != nil {
		c.t.Fatal(err)
	}
	if c.random.IntN(12) == 0 { // in the middle of what it was told
		k.Kill()
		c.told = append(c.told, fmt.Sprintf("%d: kill -9", k.PID()))
		c.lives[job] = append(lives[:i:i], lives[i+1:]...)
		return
	}
	c.asked = append(c.asked, k)
}

// midway looks whether a job has too much while its processes are at what they were told.
func (c *crowd) midway() {
	c.t.Helper()
	driver, err := c.nvml.Holding()
	if err != nil {
		c.t.Fatal(err)
	}
	for job := range c.jobs {
		var sum int64
		for _, k := range c.lives[job] {
			sum += driver[k.PID()]
		}
		if sum > c.limits[job] {
			c.t.Fatalf("job %d: driver %d, limit %d; after %q", job, sum, c.limits[job], c.told)
		}
	}
}

// settled waits until all have answered, and looks whether the figures agree.
func (c *crowd) settled() {
	c.t.Helper()
	for _, k := range c.asked {
		l, err := k.Hear()
		if err != nil {
			c.t.Fatal(l, err)
		}
		c.told = append(c.told, fmt.Sprintf("%d: %s", k.PID(), l))
		if !l.Has("ok") && !refused(l) {
			c.t.Fatal(l)
		}
	}
	c.asked = nil
	driver, err := c.nvml.Holding()
	if err != nil {
		c.t.Fatal(err)
	}
	for job, r := range c.jobs {
		var sum int64
		for _, k := range c.lives[job] {
			sum += driver[k.PID()]
			delete(driver, k.PID())
		}
		u := settle(c.t, r)
		if u.Held != sum || sum > c.limits[job] || u.Peak > c.limits[job] {
			c.t.Fatalf("job %d: slots %d, driver %d, peak %d, limit %d; after %q", job, u.Held, sum, u.Peak, c.limits[job], c.told)
		}
	}
	c.told = nil
	for pid, bytes := range driver {
		c.t.Fatalf("process %d, which is nobody's, holds %d bytes", pid, bytes)
	}
}

// Whatever processes do, and whenever they are killed: the driver never says that a job's hold more than its limit; once they have done
// it, the sum of the job's slots is what the driver says; and after the last one has ended it is nothing.
func TestSlotsAreTheLedger(t *testing.T) {
	bursts := 2000
	if testing.Short() {
		bursts = 200
	}
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			m := machine(t)
			c := &crowd{t: t, m: m, random: rand.New(rand.NewPCG(seed, 0)), limits: [2]int64{gib, gib + 12345678}, nvml: talk(t, m, "")}
			for job := range c.jobs {
				c.jobs[job] = slice(t, m, c.limits[job], 10_000)
			}
			for range bursts {
				for range 1 + c.random.IntN(6) {
					c.step()
				}
				c.midway()
				c.settled()
			}
			for job := range c.lives {
				for _, k := range c.lives[job] {
					k.Kill()
				}
				c.lives[job] = nil
			}
			c.settled()
			for job, r := range c.jobs {
				if u := settle(t, r); u.Held != 0 || u.Processes != 0 {
					t.Errorf("job %d after its last process: %+v", job, u)
				}
			}
		})
	}
}
