package fgpu

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// ErrScribbled says that a process of the job has destroyed the usage file. The job's own processes then refuse to
// allocate; noded knows only what the driver says.
var ErrScribbled = errors.New("the job's usage file is not what noded made")

// DeviceUsage is what the job's processes say about one device. It is the tenant's word: bounded, but not
// to be trusted; see rule 2 of the package.
type DeviceUsage struct {
	Held      int64  // bytes: the sum of all slots, claims included; at most what a device can have
	Processes int    // slots that hold something there
	Contexts  int    // of all processes
	Denied    uint64 // allocations refused, ever
	Launches  uint64 // kernels, ever
	Throttled time.Duration
	Peak      int64 // bytes: the most that was held at a time
}

// Usage reads what the job's processes hold, by device. Slots of processes that have ended since the last Sweep count.
// The error is ErrScribbled where the file makes no sense, fs.ErrPermission where it may not be read.
func (v *View) Usage() ([]DeviceUsage, error) {
	u, err := v.read()
	if err != nil {
		return nil, err
	}
	all := make([]DeviceUsage, v.slice.devices)
	for i := range all {
		d, c := &all[i], &u.counters[i]
		most := v.slice.device[i].most()
		for n := range u.slot {
			s := &u.slot[n]
			if s.key == 0 {
				continue
			}
			contexts := int(s.contexts[i/8] >> (i % 8 * 8) & 0xff)
			d.Held = min(d.Held+min(bounded(s.used[i]), most), most)
			d.Contexts += contexts
			if s.used[i] != 0 || contexts != 0 {
				d.Processes++
			}
		}
		d.Denied, d.Launches = c.denied, c.launches
		d.Throttled = time.Duration(bounded(c.throttledNS))
		d.Peak = min(bounded(c.peak), most)
	}
	return all, nil
}

// most is the greatest amount that makes sense on a device.
func (d *sliceDevice) most() int64 { return int64(max(d.physical, d.limit)) }

func bounded(n uint64) int64 { return int64(min(n, 1<<62)) }

// read copies the usage file; the copy is good until the next read. It is not mapped (rule 3 of the package). A word that a process changes meanwhile is
// read before or after the change: the kernel copies aligned words whole.
func (v *View) read() (*usageFile, error) {
	if v.usage == nil {
		return nil, fmt.Errorf("what the job's processes hold: %w", fs.ErrPermission)
	}
	if v.copy == nil {
		v.copy = new(usageFile)
	}
	u := v.copy
	n, err := v.usage.ReadAt(u.bytes(), 0)
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: cut to %d bytes of %d", ErrScribbled, n, usageSize)
	case err != nil:
		return nil, fmt.Errorf("what the job's processes hold: %w", err)
	case string(u.magic[:]) != usageMagic || u.version != version || u.size != uint32(usageSize):
		return nil, fmt.Errorf("%w: its header was written over", ErrScribbled)
	}
	return u, nil
}

// Sweep clears the slots of processes that have ended and returns the bytes each device got back, by device. It calls alive
// for each slot in use with the process id and the lower 42 bits of the start time (Processes.Alive fits), at most 1024 times. Only
// noded sweeps: a slot of a dead process has then no other writer, and needs no lock.
func (r *Region) Sweep(alive func(pid int, start uint64) bool) ([]int64, error) {
	freed := make([]int64, r.slice.devices)
	if err := r.keepSize(); err != nil {
		return freed, err
	}
	u, err := r.read()
	if err != nil {
		return freed, err
	}
	for i := range u.slot {
		s := &u.slot[i]
		if s.key == 0 {
			continue
		}
		if pid := int(s.key >> pidShift); pid > 0 && alive(pid, s.key&startMask) {
			continue
		}
		if err := r.clear(i); err != nil {
			return freed, fmt.Errorf("free the slot of a process that ended: %w", err)
		}
		for d := range freed {
			most := r.slice.device[d].most()
			freed[d] = min(freed[d]+min(bounded(s.used[d]), most), most)
		}
	}
	return freed, nil
}

// clear empties a slot and only then, by a write of its own, gives it away. Others compare the key as a
// whole with 0 and with theirs, so that one seen half written is just another dead key.
func (r *Region) clear(i int) error {
	var zero [slotSize]byte
	if _, err := r.usage.WriteAt(zero[slotKeySize:], slotOffset(i)+slotKeySize); err != nil {
		return err
	}
	_, err := r.usage.WriteAt(zero[:slotKeySize], slotOffset(i))
	return err
}

// keepSize takes back what a tenant added to its file, which would fill the file system that noded's own state is on.
func (r *Region) keepSize() error {
	info, err := r.usage.Stat()
	if err != nil || info.Size() <= int64(usageSize) {
		return err
	}
	return r.usage.Truncate(int64(usageSize))
}
