package fgpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"fairslice/nodes"
)

// View reads a region without changing it, from inside the job's container too. Its methods may be called by one
// goroutine at a time.
type View struct {
	slice *sliceFile
	usage *os.File   // nil where it may not be read
	copy  *usageFile // of usage, as last read
}

// DefaultDir is where a container has its region. Outside containers $FAIRSLICE_FGPU_DIR names the directory.
const DefaultDir = "/.fairslice/fgpu"

// ErrNoSlice says that there is no region: this is not a job with a slice.
var ErrNoSlice = errors.New("no slice of a GPU here")

// Find names the directory of this process's region: DefaultDir where it exists, or else getenv("FAIRSLICE_FGPU_DIR"). The
// error is ErrNoSlice. The order is the shim's: the variable cannot lead it away from a container's own slice.
func Find(getenv func(string) string) (string, error) {
	if _, err := os.Stat(DefaultDir); err == nil {
		return DefaultDir, nil
	}
	if dir := getenv("FAIRSLICE_FGPU_DIR"); dir != "" {
		return dir, nil
	}
	return "", ErrNoSlice
}

// OpenReadOnly opens the region of dir for reading. What the job's processes hold is known only where usage may be
// read, as by the job itself. The error is ErrNoSlice where there is no slice file.
func OpenReadOnly(dir string) (*View, error) {
	f, err := openRegular(filepath.Join(dir, SliceFile), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoSlice, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the slice: %w", err)
	}
	defer f.Close()
	v := &View{}
	if v.slice, err = mapChecked(f, false); err != nil {
		return nil, fmt.Errorf("open the slice: %w", err)
	}
	if usage, err := openRegular(filepath.Join(dir, UsageFile), os.O_RDONLY); err == nil {
		v.usage = usage
	}
	return v, nil
}

// Close ends the use of the files, which stay.
func (v *View) Close() error {
	var err error
	if v.slice != nil {
		err = v.slice.unmap()
		v.slice = nil
	}
	if v.usage != nil {
		err = errors.Join(err, v.usage.Close())
		v.usage = nil
	}
	return err
}

// mapChecked maps a slice file that has all marks of one.
func mapChecked(f *os.File, writable bool) (*sliceFile, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != int64(sliceSize) {
		return nil, fmt.Errorf("%s has %d bytes: a slice file of version %d has %d", f.Name(), info.Size(), version, sliceSize)
	}
	s, err := mapSlice(f, writable)
	if err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.Name(), err), s.unmap())
	}
	return s, nil
}

func (s *sliceFile) check() error {
	switch {
	case string(s.magic[:]) != sliceMagic:
		return errors.New("not a slice file")
	case s.version != version:
		return fmt.Errorf("a slice file of version %d: this program knows version %d", s.version, version)
	case s.size != uint32(sliceSize):
		return fmt.Errorf("a slice file that says it has %d bytes: want %d", s.size, sliceSize)
	case s.devices < 1 || s.devices > maxDevices:
		return fmt.Errorf("a slice file of %d devices: want 1 to %d", s.devices, maxDevices)
	}
	// The rules of a Spec hold for what is in the file, too; who owns it is not in there.
	spec := Spec{Policy: Policy(s.policy.Load()), Frame: time.Duration(s.frameUS) * time.Microsecond}
	for i := range int(s.devices) {
		d := s.info(i)
		if d.Slice.Mode == "" {
			return fmt.Errorf("device %d: mode %d is unknown", i, s.device[i].mode)
		}
		spec.Devices = append(spec.Devices, Device{Slice: d.Slice, Physical: d.Physical, Context: d.Context, Phase: d.Phase})
	}
	return spec.check()
}

// Info is what noded has said about a slice.
type Info struct {
	Job        string
	Policy     Policy
	Frame      time.Duration
	FrameStart uint64 // see Monotonic
	Heartbeat  uint64 // Monotonic of noded's last look; 0: none yet
	Devices    []DeviceInfo
	Processes  []Process
}

// DeviceInfo is one device of Info.
type DeviceInfo struct {
	Slice       nodes.Slice
	Model       string
	Physical    int64 // bytes of the whole GPU
	Context     int64 // bytes of one context
	Untracked   int64 // bytes the driver counts beyond what the job's processes said they hold
	Driver      int64 // bytes the job holds, by the driver
	Utilization int   // the job's part of the GPU's time lately, in 1/100 percent
	Open, Phase int   // its window in each frame, in 1/100 percent
	Lost        bool  // the driver no longer answers for it
}

// Process is one process of the job on one of its devices.
type Process struct {
	PID    int // on the host
	Device int // index into Info.Devices
	Bytes  int64
}

// Sample is one second of one device.
type Sample struct {
	Bytes       int64 // by the driver; kept in whole MiB
	Utilization int   // 1/100 percent of the GPU's time
	Throttled   int   // 1/100 percent of the second in which a launch waited
}

// Info reads all of it but the history.
func (v *View) Info() Info {
	s := v.slice
	info := Info{
		Job: text(s.job[:]), Policy: Policy(s.policy.Load()),
		Frame: time.Duration(s.frameUS) * time.Microsecond, FrameStart: s.frameStart, Heartbeat: s.heartbeat.Load(),
		Processes: v.processes(),
	}
	for i := range int(s.devices) {
		info.Devices = append(info.Devices, s.info(i))
	}
	return info
}

func (s *sliceFile) info(i int) DeviceInfo {
	d := &s.device[i]
	mode, _ := modeOf(d.mode)
	return DeviceInfo{
		Slice: nodes.Slice{
			UUID: text(d.uuid[:]), Index: int(d.index), Amount: nodes.Amount(d.fgpu), Memory: int64(d.limit),
			SMShare: int(d.share), Mode: mode,
		},
		Model: text(d.model[:]), Physical: int64(d.physical), Context: int64(d.context.Load()),
		Untracked: int64(d.untracked.Load()), Driver: int64(d.driver.Load()), Utilization: int(d.utilization.Load()),
		Open: int(d.open.Load()), Phase: int(d.phase.Load()), Lost: d.lost.Load() != 0,
	}
}

// processes reads the list under its seqlock. A writer that is killed in the middle leaves it odd for ever, so after some
// tries there is no list rather than no answer.
func (v *View) processes() []Process {
	s := v.slice
	for range 100 {
		before := s.processSeq.Load()
		if before%2 != 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		all := make([]Process, 0, min(s.processes.Load(), maxProcesses))
		for i := range cap(all) {
			p := &s.process[i]
			all = append(all, Process{int(p.pid.Load()), int(p.device.Load()), int64(p.bytes.Load())})
		}
		if s.processSeq.Load() == before {
			return slices.DeleteFunc(all, func(p Process) bool { return p.Device >= int(s.devices) })
		}
	}
	return nil
}

// History is what AddSample kept of a device, oldest first: at most 599 seconds, for noded may be writing over the 600th.
func (v *View) History(device int) []Sample {
	s := v.slice
	if device < 0 || device >= int(s.devices) {
		return nil
	}
	next := s.device[device].historyNext.Load()
	first := next - min(next, maxHistory-1)
	var all []Sample
	for n := first; n < next; n++ {
		h := s.history[device][n%maxHistory]
		all = append(all, Sample{int64(h.mib) << 20, int(h.utilization), int(h.throttled)})
	}
	// Seconds that passed meanwhile were written over the oldest.
	passed := s.device[device].historyNext.Load() - next
	if written := next + passed; written >= first+maxHistory {
		all = all[min(written-first-maxHistory+1, uint64(len(all))):]
	}
	return all
}
