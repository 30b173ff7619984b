package fgpu

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestUsageIsTheSumOfSlots(t *testing.T) {
	r := create(t, quarter())
	hold(t, r.Dir(), 0, Key(10, 1), 100*mib, 7*mib)
	hold(t, r.Dir(), 3, Key(11, 1), 50*mib)
	scribble(t, r.Dir(), slotOffset(3)+16+16*8, 0x0201) // two contexts on device 1, one on device 0
	hold(t, r.Dir(), 5, 0, 999*mib)                     // of nobody: a claim that was never made
	hold(t, r.Dir(), maxSlots-1, Key(12, 1), 1*mib)
	scribble(t, r.Dir(), 64+64, 3, 400, uint64(2*time.Second), 120*mib)
	u, err := r.Usage()
	if err != nil {
		t.Fatal(err)
	}
	want := []DeviceUsage{
		{Held: 151 * mib, Processes: 3, Contexts: 1},
		{Held: 7 * mib, Processes: 2, Contexts: 2, Denied: 3, Launches: 400, Throttled: 2 * time.Second, Peak: 120 * mib},
	}
	if !slices.Equal(u, want) {
		t.Errorf("usage %+v\nwant  %+v", u, want)
	}
}

func TestSweepClearsTheDeadAndOnlyThem(t *testing.T) {
	r := create(t, quarter())
	hold(t, r.Dir(), 0, Key(10, 5), 100*mib, 1*mib)
	hold(t, r.Dir(), 1, Key(11, 6), 50*mib, 2*mib)
	hold(t, r.Dir(), 2, 77, 30*mib) // process 0: nonsense
	hold(t, r.Dir(), 900, Key(maxPID, startMask), 4*mib)
	type process struct {
		pid   int
		start uint64
	}
	var asked []process
	freed, err := r.Sweep(func(pid int, start uint64) bool {
		asked = append(asked, process{pid, start})
		return pid == 11
	})
	if err != nil || !slices.Equal(freed, []int64{134 * mib, 1 * mib}) {
		t.Errorf("freed %v, %v", freed, err)
	}
	if want := []process{{10, 5}, {11, 6}, {maxPID, startMask}}; !slices.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
	u, err := r.Usage()
	if err != nil || u[0].Held != 50*mib || u[1].Held != 2*mib || u[0].Processes != 1 {
		t.Errorf("left %+v, %v", u, err)
	}
	raw, err := r.read()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 2, 900} {
		if raw.slot[i] != (usageSlot{}) {
			t.Errorf("slot %d is not empty: %+v", i, raw.slot[i])
		}
	}
}

// The tenant owns the file and may do anything to it; noded lives, and says what it can.
func TestATenantsHarmToItsUsage(t *testing.T) {
	path := func(r *Region) string { return filepath.Join(r.Dir(), UsageFile) }
	nobody := func(int, uint64) bool { return false }
	for name, size := range map[string]int64{"to nothing": 0, "into the header": 10, "into the slots": 5000} {
		t.Run("cut "+name, func(t *testing.T) {
			r := create(t, quarter())
			hold(t, r.Dir(), 1000, Key(1, 1), mib)
			if err := os.Truncate(path(r), size); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Usage(); !errors.Is(err, ErrScribbled) {
				t.Errorf("usage: %v, want ErrScribbled", err)
			}
			if freed, err := r.Sweep(nobody); !errors.Is(err, ErrScribbled) || !slices.Equal(freed, []int64{0, 0}) {
				t.Errorf("sweep: %v, %v, want ErrScribbled", freed, err)
			}
			if info, err := os.Stat(path(r)); err != nil || info.Size() != size {
				t.Errorf("the file was written to: %v, %v", info, err)
			}
		})
	}
	t.Run("grown", func(t *testing.T) {
		r := create(t, quarter())
		hold(t, r.Dir(), 0, Key(1, 1), mib)
		if err := os.Truncate(path(r), 1<<40); err != nil {
			t.Fatal(err)
		}
		if freed, err := r.Sweep(nobody); err != nil || freed[0] != mib {
			t.Errorf("sweep: %v, %v", freed, err)
		}
		if info, err := os.Stat(path(r)); err != nil || info.Size() != int64(usageSize) {
			t.Errorf("size %v, %v: want it taken back", info.Size(), err)
		}
	})
	t.Run("amounts beyond any GPU", func(t *testing.T) {
		r := create(t, quarter())
		for i := range maxSlots {
			hold(t, r.Dir(), i, math.MaxUint64, math.MaxUint64, 1<<63)
		}
		scribble(t, r.Dir(), 64, math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64)
		u, err := r.Usage()
		if err != nil || u[0].Held != 8*gib || u[1].Held != 8*gib || u[0].Peak != 8*gib || u[0].Throttled < 0 {
			t.Errorf("%+v, %v", u, err)
		}
		if freed, err := r.Sweep(nobody); err != nil || !slices.Equal(freed, []int64{8 * gib, 8 * gib}) {
			t.Errorf("sweep: %v, %v", freed, err)
		}
	})
	t.Run("a lease on it", func(t *testing.T) { // who opens it then waits until the kernel takes the lease away, for 45 s
		r := create(t, quarter())
		r.Close()
		tenant, err := os.OpenFile(path(r), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer tenant.Close()
		if _, err := unix.FcntlInt(tenant.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(r.Dir()); !errors.Is(err, unix.EAGAIN) {
			t.Errorf("opened: %v, want to be told to come again", err)
		}
		again, err := Create(r.Dir(), quarter())
		if err != nil {
			t.Fatalf("a new one: %v", err)
		}
		again.Close()
	})
	t.Run("header written over", func(t *testing.T) {
		r := create(t, quarter())
		scribble(t, r.Dir(), 0, 0)
		if _, err := r.Usage(); !errors.Is(err, ErrScribbled) {
			t.Errorf("usage: %v, want ErrScribbled", err)
		}
	})
	t.Run("deleted", func(t *testing.T) { // cannot happen in noded's directory, but costs nothing
		r := create(t, quarter())
		hold(t, r.Dir(), 0, Key(1, 1), mib)
		if err := os.Remove(path(r)); err != nil {
			t.Fatal(err)
		}
		if freed, err := r.Sweep(nobody); err != nil || freed[0] != mib {
			t.Errorf("sweep: %v, %v", freed, err)
		}
	})
}

// Rule 3 of the package costs nothing: a word that a process changes at this moment is read whole.
func TestAWordIsNeverReadHalfWritten(t *testing.T) {
	r := create(t, quarter())
	memory, err := unix.Mmap(int(r.usage.Fd()), 0, usageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	word := (*atomic.Uint64)(unsafe.Pointer(&memory[slotOffset(3)+16]))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				for range 1000 {
					word.Store(0x1111111111111111)
					word.Store(0xeeeeeeeeeeeeeeee)
				}
			}
		}
	}()
	seen := map[uint64]int{}
	both := func() bool { return seen[0x1111111111111111] > 0 && seen[0xeeeeeeeeeeeeeeee] > 0 }
	for n, end := 0, time.Now().Add(10*time.Second); n < 1000 || !both() && time.Now().Before(end); n++ {
		u, err := r.read()
		if err != nil {
			t.Fatal(err)
		}
		seen[u.slot[3].used[0]]++
	}
	close(stop)
	<-done
	delete(seen, 0) // before the first store
	if len(seen) != 2 || !both() {
		t.Errorf("read %x", seen)
	}
}

func TestUsageThatMayNotBeRead(t *testing.T) {
	r := create(t, quarter())
	if err := os.Remove(filepath.Join(r.Dir(), UsageFile)); err != nil {
		t.Fatal(err)
	}
	v, err := OpenReadOnly(r.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := v.Usage(); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("usage: %v", err)
	}
	if v.Info().Job != "12[3]" {
		t.Errorf("the rest: %+v", v.Info())
	}
}

// FuzzUsage gives noded any bytes a tenant could leave.
func FuzzUsage(f *testing.F) {
	f.Add([]byte(usageMagic), 0)
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 1, 2, 3}, 64+16*64)
	f.Add(make([]byte, 200), usageSize-100)
	spec := quarter()
	dir := filepath.Join(f.TempDir(), "region")
	r, err := Create(dir, spec)
	if err != nil {
		f.Fatal(err)
	}
	defer r.Close()
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		if at < 0 || at > usageSize {
			return
		}
		tenant, err := os.OpenFile(filepath.Join(dir, UsageFile), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer tenant.Close()
		if _, err := tenant.WriteAt(b, int64(at)); err != nil {
			t.Fatal(err)
		}
		u, err := r.Usage()
		if err != nil && !errors.Is(err, ErrScribbled) {
			t.Fatal(err)
		}
		for _, d := range u {
			if d.Held < 0 || d.Held > 8*gib || d.Peak < 0 || d.Peak > 8*gib || d.Throttled < 0 || d.Processes > maxSlots {
				t.Fatalf("%+v", d)
			}
		}
		if _, err := r.Sweep(func(pid int, _ uint64) bool { return pid%2 == 0 }); err != nil && !errors.Is(err, ErrScribbled) {
			t.Fatal(err)
		}
	})
}

// FuzzSlice gives a reader any slice file: it is opened or refused.
func FuzzSlice(f *testing.F) {
	f.Add([]byte(sliceMagic), 0)
	f.Add([]byte{3}, 20)
	f.Add([]byte{255, 255, 255, 255}, 256+112)
	dir := filepath.Join(f.TempDir(), "region")
	r, err := Create(dir, quarter())
	if err != nil {
		f.Fatal(err)
	}
	whole := slices.Clone(r.slice.bytes())
	r.Close()
	path := filepath.Join(dir, SliceFile)
	if err := os.Chmod(path, 0o644); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		if at < 0 || at+len(b) > len(whole) {
			return
		}
		changed := slices.Clone(whole)
		copy(changed[at:], b)
		if err := os.WriteFile(path, changed, 0o644); err != nil {
			t.Fatal(err)
		}
		v, err := OpenReadOnly(dir)
		if err != nil {
			return
		}
		defer v.Close()
		info := v.Info()
		for i, d := range info.Devices {
			if d.Slice.UUID == "" || d.Slice.Memory < 0 || d.Slice.SMShare > Whole || len(v.History(i)) > maxHistory {
				t.Fatalf("%+v", d)
			}
		}
		for _, p := range info.Processes {
			if p.Device >= len(info.Devices) {
				t.Fatalf("%+v", p)
			}
		}
	})
}

// Whatever processes come, hold and are killed: what is held is the sum of those that live after each sweep.
func TestHeldIsTheSumOfTheLiving(t *testing.T) {
	r := create(t, quarter())
	rapid.Check(t, func(t *rapid.T) {
		living := map[int]uint64{}  // pid → slot
		amount := map[int][]int64{} // of everyone who has a slot
		if _, err := r.Sweep(func(int, uint64) bool { return false }); err != nil {
			t.Fatal(err)
		}
		taken := map[uint64]int{}
		t.Repeat(map[string]func(*rapid.T){
			"come": func(t *rapid.T) {
				pid := rapid.IntRange(1, maxPID).Draw(t, "pid")
				slot := rapid.Uint64Range(0, maxSlots-1).Draw(t, "slot")
				if _, is := amount[pid]; is {
					return
				}
				if _, is := taken[slot]; is {
					return
				}
				a, b := rapid.Int64Range(0, 8*mib).Draw(t, "a"), rapid.Int64Range(0, 8*mib).Draw(t, "b")
				living[pid], taken[slot], amount[pid] = slot, pid, []int64{a, b}
				u := usageFile{}
				u.slot[0] = usageSlot{key: Key(pid, 9), used: [maxDevices]uint64{uint64(a), uint64(b)}}
				if _, err := r.usage.WriteAt(u.bytes()[slotsOffset:slotsOffset+slotSize], slotOffset(int(slot))); err != nil {
					t.Fatal(err)
				}
			},
			"die": func(t *rapid.T) {
				if len(living) == 0 {
					return
				}
				pids := make([]int, 0, len(living))
				for pid := range living {
					pids = append(pids, pid)
				}
				slices.Sort(pids)
				delete(living, rapid.SampledFrom(pids).Draw(t, "dies"))
			},
			"sweep": func(t *rapid.T) {
				var want [2]int64
				for slot, pid := range taken {
					if _, lives := living[pid]; !lives {
						want[0], want[1] = want[0]+amount[pid][0], want[1]+amount[pid][1]
						delete(taken, slot)
						delete(amount, pid)
					}
				}
				freed, err := r.Sweep(func(pid int, start uint64) bool { _, lives := living[pid]; return lives && start == 9 })
				if err != nil || !slices.Equal(freed, want[:]) {
					t.Fatalf("freed %v, %v, want %v", freed, err, want)
				}
			},
			"": func(t *rapid.T) {
				var want [2]int64
				for _, a := range amount {
					want[0], want[1] = want[0]+a[0], want[1]+a[1]
				}
				u, err := r.Usage()
				if err != nil || u[0].Held != want[0] || u[1].Held != want[1] {
					t.Fatalf("held %+v, %v, want %v", u, err, want)
				}
			},
		})
	})
}

func TestUntrackedRisesWithTheSecondLook(t *testing.T) {
	steps := []struct{ driver, before, after, want int64 }{
		{100, 100, 100, 0},
		{180, 100, 100, 0},   // seen once
		{180, 100, 100, 80},  // and again
		{300, 100, 220, 80},  // allocated while the driver was asked: no more than before
		{300, 220, 220, 80},  //
		{300, 300, 220, 0},   // freed in between; it falls at once
		{300, 220, 220, 0},   // seen once
		{310, 220, 220, 80},  // the smaller of two looks
		{100, 400, 400, 0},   // contexts charged in advance
		{-1, 0, 0, 0},        // the driver does not tell
		{1000, 100, 900, 0},  //
		{1000, 900, 1100, 0}, //
	}
	var u Untracked
	for i, s := range steps {
		if got := u.Next(s.driver, s.before, s.after); got != s.want {
			t.Errorf("step %d %+v: %d", i, s, got)
		}
	}
}

// BenchmarkLook is what a job costs noded each second: a sweep and a reading, with 20 processes that live.
func BenchmarkLook(b *testing.B) {
	r, err := Create(filepath.Join(b.TempDir(), "region"), quarter())
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var p Processes
	start, err := p.Start(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	var u usageFile
	for i := range 20 {
		u.slot[i] = usageSlot{key: Key(os.Getpid(), start), used: [maxDevices]uint64{mib}}
	}
	if _, err := r.usage.WriteAt(u.bytes()[slotsOffset:], slotsOffset); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := r.Sweep(p.Alive); err != nil {
			b.Fatal(err)
		}
		if u, err := r.Usage(); err != nil || u[0].Processes != 20 {
			b.Fatal(u, err)
		}
	}
}

// BenchmarkCreate is what a region costs the start of a job, and its end.
func BenchmarkCreate(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "region")
	for b.Loop() {
		r, err := Create(dir, quarter())
		if err == nil {
			err = r.Remove()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
