package fgpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fairslice/nodes"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// quarter is a job with a quarter of each of two GPUs of 8 GiB.
func quarter() Spec {
	slice := func(uuid string, index int) Device {
		return Device{
			Slice: nodes.Slice{UUID: uuid, Index: index, Amount: 50, Memory: 2 * gib, SMShare: 2500, Mode: nodes.ModeShim},
			Model: "Simulated 8 GiB", Physical: 8 * gib, Context: 64 * mib, Phase: 2500 * index,
		}
	}
	return Spec{Job: "12[3]", Devices: []Device{slice("GPU-aaaa", 0), slice("GPU-bbbb", 1)}, Policy: Hard,
		UID: os.Getuid(), GID: os.Getgid(), Frame: DefaultFrame}
}

func create(t *testing.T, spec Spec) *Region {
	t.Helper()
	r, err := Create(filepath.Join(t.TempDir(), "region"), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// scribble writes at an offset of the usage file, as a process of the job could.
func scribble(t *testing.T, dir string, offset int64, words ...uint64) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, UsageFile), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b []byte
	for _, w := range words {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	if _, err := f.WriteAt(b, offset); err != nil {
		t.Fatal(err)
	}
}

// hold makes slot i one of a process that holds bytes on device 0 and 1.
func hold(t *testing.T, dir string, i int, key uint64, bytes ...uint64) {
	t.Helper()
	scribble(t, dir, slotOffset(i), append([]uint64{key, 0}, bytes...)...)
}

func TestCreateMakesWhatTheShimExpects(t *testing.T) {
	spec := quarter()
	spec.UID, spec.GID = 12345, 23456
	if os.Getuid() != 0 {
		spec.UID, spec.GID = os.Getuid(), os.Getgid()
	}
	r := create(t, spec)
	for name, want := range map[string]struct {
		mode     fs.FileMode
		uid, gid int
		size     int
	}{
		SliceFile: {0o444, os.Geteuid(), os.Getegid(), sliceSize},
		UsageFile: {0o600, spec.UID, spec.GID, usageSize},
		".":       {0o755 | fs.ModeDir, os.Geteuid(), os.Getegid(), 0},
	} {
		info, err := os.Stat(filepath.Join(r.Dir(), name))
		if err != nil {
			t.Fatal(err)
		}
		owner := info.Sys().(*syscall.Stat_t)
		if info.Mode() != want.mode || int(owner.Uid) != want.uid || int(owner.Gid) != want.gid || want.size != 0 && info.Size() != int64(want.size) {
			t.Errorf("%s: %v, %d:%d, %d bytes; want %+v", name, info.Mode(), owner.Uid, owner.Gid, info.Size(), want)
		}
	}
	if got, err := r.Spec(); err != nil || !reflect.DeepEqual(got, spec) {
		t.Errorf("read back %+v, %v\nwant %+v", got, err, spec)
	}
	info := r.Info()
	if d := info.Devices[1]; d.Open != 2500 || d.Phase != 2500 || d.Lost || info.Heartbeat != 0 || len(info.Processes) != 0 {
		t.Errorf("begins as %+v", info)
	}
}

func TestTheGateIsOpenWhereOthersKeepTheShare(t *testing.T) {
	for _, mode := range []nodes.Mode{nodes.ModeMPS, nodes.ModeMIG, nodes.ModeCount} {
		spec := quarter()
		spec.Devices[0].Slice.Mode = mode
		if d := create(t, spec).Info().Devices[0]; d.Open != Whole || d.Slice.Mode != mode || d.Slice.SMShare != 2500 {
			t.Errorf("%s: %+v", mode, d)
		}
	}
}

func TestCreateAgainKeepsWhatIsHeld(t *testing.T) {
	r := create(t, quarter())
	hold(t, r.Dir(), 0, Key(os.Getpid(), 1), 5*mib)
	r.SetContext(0, 100*mib)
	configured := quarter() // noded starts over, configured otherwise
	configured.Policy, configured.Frame = Burst, time.Second
	configured.Devices[0].Context, configured.Devices[0].Model, configured.Devices[0].Phase = 1, "another name", 7000
	again, err := Create(r.Dir(), configured)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if u, err := again.Usage(); err != nil || u[0].Held != 5*mib {
		t.Errorf("the same job: %+v, %v; want what was held", u, err)
	}
	want := quarter()
	want.Policy, want.Devices[0].Context = Burst, 100*mib
	if got, err := again.Spec(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
}

func TestCreateReplacesWhatIsAnothers(t *testing.T) {
	cases := map[string]func(dir string, spec *Spec) error{
		"another limit":       func(_ string, s *Spec) error { s.Devices[0].Slice.Memory--; return nil },
		"another job":         func(_ string, s *Spec) error { s.Job = "13"; return nil },
		"one device less":     func(_ string, s *Spec) error { s.Devices = s.Devices[:1]; return nil },
		"another share":       func(_ string, s *Spec) error { s.Devices[1].Slice.SMShare++; return nil },
		"another mode":        func(_ string, s *Spec) error { s.Devices[1].Slice.Mode = nodes.ModeMPS; return nil },
		"usage truncated":     func(dir string, _ *Spec) error { return os.Truncate(filepath.Join(dir, UsageFile), 100) },
		"usage gone":          func(dir string, _ *Spec) error { return os.Remove(filepath.Join(dir, UsageFile)) },
		"killed before slice": func(dir string, _ *Spec) error { return os.Remove(filepath.Join(dir, SliceFile)) },
		"usage open to all":   func(dir string, _ *Spec) error { return os.Chmod(filepath.Join(dir, UsageFile), 0o666) },
		"killed while writing": func(dir string, _ *Spec) error {
			return errors.Join(os.Remove(filepath.Join(dir, SliceFile)), os.WriteFile(filepath.Join(dir, ".slice.new"), []byte("half"), 0o600))
		},
	}
	for name, harm := range cases {
		t.Run(name, func(t *testing.T) {
			r := create(t, quarter())
			hold(t, r.Dir(), 0, Key(os.Getpid(), 1), 5*mib)
			spec := quarter()
			if err := harm(r.Dir(), &spec); err != nil {
				t.Fatal(err)
			}
			again, err := Create(r.Dir(), spec)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if u, err := again.Usage(); err != nil || u[0].Held != 0 {
				t.Errorf("%+v, %v; want a new region", u, err)
			}
			if got, err := again.Spec(); err != nil || !reflect.DeepEqual(got, spec) {
				t.Errorf("%+v, %v; want %+v", got, err, spec)
			}
			if names, _ := filepath.Glob(filepath.Join(r.Dir(), ".*")); len(names) != 0 {
				t.Errorf("left behind: %v", names)
			}
		})
	}
}

// A region whose frames begin later than now is from before the machine was started: its processes are gone, and
// the process ids in it are others' now.
func TestCreateReplacesARegionOfAnEarlierBoot(t *testing.T) {
	spec := quarter()
	spec.FrameStart = Monotonic() + uint64(time.Hour)
	r := create(t, spec)
	hold(t, r.Dir(), 0, Key(os.Getpid(), 1), 5*mib)
	again, err := Create(r.Dir(), quarter())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if u, err := again.Usage(); err != nil || u[0].Held != 0 || again.Info().FrameStart != 0 {
		t.Errorf("%+v, %v, frames from %d: want a new region", u, err, again.Info().FrameStart)
	}
}

func TestCreateRefusesNonsenseAndSaysAllOfIt(t *testing.T) {
	spec := quarter()
	spec.Frame = 0
	spec.UID = -1
	spec.Devices[0].Slice.SMShare = 0
	spec.Devices[1].Slice.UUID = spec.Devices[0].Slice.UUID
	spec.Devices[1].Slice.Memory = -1
	spec.Devices[1].Slice.Mode = "magic"
	dir := filepath.Join(t.TempDir(), "region")
	_, err := Create(dir, spec)
	for _, want := range []string{"frame of 0s", "user -1", "share of 0", "twice", "limit -1", `mode "magic"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v: want %q in it", err, want)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s was made all the same: %v", dir, err)
	}
	if _, err := Create(dir, Spec{}); err == nil || !strings.Contains(err.Error(), "0 devices: want 1 to 16") {
		t.Errorf("no devices: %v", err)
	}
}

func TestOpenRefusesWhatIsNoRegion(t *testing.T) {
	at := func(offset int64, b ...byte) func(string) error {
		return func(slice string) error {
			f, err := os.OpenFile(slice, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(b, offset)
			return errors.Join(err, f.Close())
		}
	}
	cases := map[string]struct {
		harm func(slice string) error
		want string
	}{
		"truncated":        {func(s string) error { return os.Truncate(s, 5000) }, "has 5000 bytes"},
		"empty":            {func(s string) error { return os.Truncate(s, 0) }, "has 0 bytes"},
		"other magic":      {at(0, 'X'), "not a slice file"},
		"other version":    {at(8, 2), "version 2: this program knows version 1"},
		"other size":       {at(12, 1), "says it has"},
		"no devices":       {at(16, 0), "0 devices"},
		"17 devices":       {at(16, 17), "17 devices"},
		"unknown policy":   {at(20, 9), "policy 9"},
		"no frame":         {at(24, 0, 0, 0, 0), "frame of 0s"},
		"no id":            {at(256, 0), "1 to 47 bytes"},
		"unknown mode":     {at(256+112, 77), "mode 77"},
		"limit of no use":  {at(256+48, 255, 255, 255, 255, 255, 255, 255, 255), "none negative"},
		"a directory":      {func(s string) error { return errors.Join(os.Remove(s), os.Mkdir(s, 0o755)) }, ""},
		"a link":           {func(s string) error { return errors.Join(os.Remove(s), os.Symlink("/etc/passwd", s)) }, ""},
		"a pipe":           {func(s string) error { return errors.Join(os.Remove(s), syscall.Mkfifo(s, 0o600)) }, "regular file"},
		"a usage file":     {func(s string) error { return os.Rename(filepath.Join(filepath.Dir(s), UsageFile), s) }, "bytes"},
		"nothing of it":    {os.Remove, "no such file"},
		"without its peer": {func(s string) error { return os.Remove(filepath.Join(filepath.Dir(s), UsageFile)) }, "no such file"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := create(t, quarter())
			if err := os.Chmod(filepath.Join(r.Dir(), SliceFile), 0o644); err != nil {
				t.Fatal(err)
			}
			r.Close()
			if err := c.harm(filepath.Join(r.Dir(), SliceFile)); err != nil {
				t.Fatal(err)
			}
			if bad, err := Open(r.Dir()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v: want %q", err, c.want)
				if err == nil {
					bad.Close()
				}
			}
			if name == "without its peer" {
				return
			}
			if bad, err := OpenReadOnly(r.Dir()); err == nil {
				t.Error("opened for reading")
				bad.Close()
			}
		})
	}
}

func TestWhatIsPublishedIsSeenInside(t *testing.T) {
	r := create(t, quarter())
	v, err := OpenReadOnly(r.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	r.Publish(1, Measured{Driver: 300 * mib, Untracked: 20 * mib, Utilization: 2345})
	r.Publish(0, Measured{Driver: -1, Untracked: -1, Utilization: 20_000})
	r.SetWindow(1, 3000, 7500)
	r.SetLost(0, true)
	r.SetProcesses([]Process{{PID: 77, Device: 1, Bytes: 300 * mib}, {PID: 0, Device: 1}, {PID: 5, Device: 2}})
	r.Beat(99)
	info := v.Info()
	if d := info.Devices[1]; d.Driver != 300*mib || d.Untracked != 20*mib || d.Utilization != 2345 || d.Open != 3000 || d.Phase != 7500 || d.Lost {
		t.Errorf("device 1: %+v", d)
	}
	if d := info.Devices[0]; d.Driver != 0 || d.Untracked != 0 || d.Utilization != Whole || !d.Lost {
		t.Errorf("device 0: %+v", d)
	}
	if want := []Process{{77, 1, 300 * mib}}; !reflect.DeepEqual(info.Processes, want) || info.Heartbeat != 99 {
		t.Errorf("processes %+v, heartbeat %d", info.Processes, info.Heartbeat)
	}
	many := make([]Process, 300)
	for i := range many {
		many[i] = Process{PID: i + 1}
	}
	r.SetProcesses(many)
	if n := len(v.Info().Processes); n != maxProcesses {
		t.Errorf("%d processes: want the first %d", n, maxProcesses)
	}
}

// Noded is killed while it writes the list: readers do not hang, and the next noded mends it.
func TestAListHalfWrittenIsNone(t *testing.T) {
	r := create(t, quarter())
	r.SetProcesses([]Process{{PID: 1}})
	r.slice.processSeq.Add(1)
	if all := r.Info().Processes; all != nil {
		t.Errorf("a list that is being written: %v", all)
	}
	r.SetProcesses([]Process{{PID: 2}})
	if all := r.Info().Processes; len(all) != 1 || all[0].PID != 2 || r.slice.processSeq.Load()%2 != 0 {
		t.Errorf("%v, sequence %d", all, r.slice.processSeq.Load())
	}
}

// while reads with read as long as write runs, and waits for it, so that nothing is unmapped under it.
func while(write func(), read func() error) error {
	done := make(chan struct{})
	go func() { defer close(done); write() }()
	defer func() { <-done }()
	for {
		if err := read(); err != nil {
			return err
		}
		select {
		case <-done:
			return read()
		default:
		}
	}
}

// Readers in the container see a list of one moment, never parts of two.
func TestTheListIsOfOneMoment(t *testing.T) {
	r := create(t, quarter())
	v, err := OpenReadOnly(r.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	seen := map[int]bool{}
	err = while(func() {
		for n := range 5000 {
			list := make([]Process, n%maxProcesses)
			for i := range list {
				list[i] = Process{PID: n + 1, Device: n % 2, Bytes: int64(len(list))}
			}
			r.SetProcesses(list)
		}
	}, func() error {
		list := v.processes()
		seen[len(list)] = true
		for _, p := range list {
			if p != list[0] || p.Bytes != int64(len(list)) {
				return fmt.Errorf("%d entries, of different lists: %+v, %+v", len(list), list[0], p)
			}
		}
		return nil
	})
	if err != nil || len(seen) < 2 {
		t.Errorf("%v; lists of %v entries were seen", err, seen)
	}
}

// A history that is read while seconds pass has no second in the wrong place.
func TestAHistoryIsInOrder(t *testing.T) {
	r := create(t, quarter())
	v, err := OpenReadOnly(r.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	longest := 0
	err = while(func() {
		for n := range 200_000 {
			r.AddSample(0, Sample{Bytes: int64(n) * mib, Utilization: n % Whole, Throttled: n % Whole})
		}
	}, func() error {
		h := v.History(0)
		longest = max(longest, len(h))
		for i, s := range h {
			if n := h[0].Bytes/mib + int64(i); s.Bytes != n*mib || s.Utilization != int(n%Whole) || s.Throttled != s.Utilization {
				return fmt.Errorf("%d of %d: %+v after %+v", i, len(h), s, h[max(i-1, 0)])
			}
		}
		return nil
	})
	if err != nil || longest != 599 {
		t.Errorf("%v; the longest has %d seconds", err, longest)
	}
}

// Noded of a developer is not root: its own read-only file is closed to it as well.
func TestARegionOfOneWhoIsNotRoot(t *testing.T) {
	const nobody = 65534
	parent, err := os.MkdirTemp("", "fgpu")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(parent)
	failed := make(chan error)
	go func() {
		spec := quarter()
		if os.Getuid() == 0 {
			runtime.LockOSThread() // and never unlocked: the thread ends with what it has become
			if err := os.Chown(parent, nobody, nobody); err != nil {
				failed <- err
				return
			}
			for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} { // of this thread only
				if _, _, errno := unix.RawSyscall(call, nobody, nobody, nobody); errno != 0 {
					failed <- errno
					return
				}
			}
			spec.UID, spec.GID = nobody, nobody
		}
		dir := filepath.Join(parent, "region")
		for range 2 { // made, and found
			r, err := Create(dir, spec)
			if err != nil {
				failed <- err
				return
			}
			r.Publish(0, Measured{Driver: 1})
			r.Close()
		}
		info, err := os.Stat(filepath.Join(dir, SliceFile))
		if err == nil && info.Mode() != 0o444 {
			err = fmt.Errorf("the slice is left %v", info.Mode())
		}
		if spec.UID++; err == nil {
			if r, refused := Create(dir, spec); refused == nil {
				r.Close()
				err = errors.New("a file was given to somebody else")
			} else if !strings.Contains(refused.Error(), "must run as root, or as the job's user") {
				err = refused
			}
		}
		failed <- err
	}()
	if err := <-failed; err != nil {
		t.Error(err)
	}
}

func TestHistoryKeepsTheLastTenMinutes(t *testing.T) {
	r := create(t, quarter())
	if h := r.History(0); len(h) != 0 {
		t.Errorf("history before the first second: %v", h)
	}
	for i := range 700 {
		r.AddSample(1, Sample{Bytes: int64(i) * mib, Utilization: i, Throttled: 2 * i})
	}
	h := r.History(1)
	if len(h) != 599 || h[0] != (Sample{101 * mib, 101, 202}) || h[598] != (Sample{699 * mib, 699, 1398}) {
		t.Errorf("%d samples, %+v to %+v", len(h), h[0], h[len(h)-1])
	}
	r.AddSample(0, Sample{Bytes: math.MaxInt64, Utilization: -5, Throttled: 70_000})
	if h := r.History(0); len(h) != 1 || h[0] != (Sample{math.MaxUint32 << 20, 0, Whole}) {
		t.Errorf("out of range: %+v", h)
	}
	if r.History(2) != nil || r.History(-1) != nil {
		t.Error("history of a device that is not there")
	}
}

func TestRemoveLeavesNothing(t *testing.T) {
	r := create(t, quarter())
	if _, err := WritePreload(r.Dir()); err != nil {
		t.Fatal(err)
	}
	if err := r.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(r.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
	if err := Remove(r.Dir()); err != nil {
		t.Errorf("again: %v", err)
	}
	if _, err := OpenReadOnly(r.Dir()); !errors.Is(err, ErrNoSlice) {
		t.Errorf("open: %v, want ErrNoSlice", err)
	}
}

func TestDisplayTextsAreCutBetweenCharacters(t *testing.T) {
	spec := quarter()
	spec.Devices[0].Model = strings.Repeat("ä", 40)
	spec.Job = "1\x002"
	info := create(t, spec).Info()
	if m := info.Devices[0].Model; m != strings.Repeat("ä", 31) || info.Job != "1" {
		t.Errorf("model %q, job %q", m, info.Job)
	}
}
