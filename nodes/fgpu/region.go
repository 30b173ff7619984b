package fgpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The files of a region's directory. PreloadFile is there for containers only; see Files.
const (
	SliceFile   = "slice"
	UsageFile   = "usage"
	PreloadFile = "ld.so.preload"
)

// Region is noded's end of the files of one attempt. Its methods may be called by one goroutine at a time, and for
// a directory there is one Region at a time: two that sweep would clear each other's slots.
type Region struct {
	View
	dir string
}

// Create makes dir and the region in it, or opens the one that is there if it was made for the same job, slices and user since
// the machine started: then what its processes hold stays counted, however often noded starts over and is configured otherwise. It keeps
// its frames, contexts and phases and takes the new policy. Any other region in dir is replaced. slice appears last, so that a region
// is whole or not there.
func Create(dir string, spec Spec) (*Region, error) {
	if err := spec.check(); err != nil {
		return nil, fmt.Errorf("make the region %s: %w", dir, err)
	}
	if r, err := Open(dir); err == nil {
		if r.madeFrom(spec) {
			r.slice.policy.Store(uint32(spec.Policy))
			return r, nil
		}
		r.Close()
	}
	if err := build(dir, spec); err != nil {
		return nil, fmt.Errorf("make the region %s: %w", dir, err)
	}
	return Open(dir)
}

func build(dir string, spec Spec) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // whatever the umask is
		return err
	}
	if err := os.Remove(filepath.Join(dir, SliceFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	usage := usageFile{version: version, size: uint32(usageSize)}
	copy(usage.magic[:], usageMagic)
	if err := write(dir, UsageFile, usage.bytes(), 0o600, spec.UID, spec.GID); err != nil {
		return err
	}
	slice := new(sliceFile)
	slice.fill(spec)
	return write(dir, SliceFile, slice.bytes(), 0o444, os.Geteuid(), os.Getegid())
}

func (s *sliceFile) fill(spec Spec) {
	copy(s.magic[:], sliceMagic)
	s.version, s.size = version, uint32(sliceSize)
	s.devices = uint32(len(spec.Devices))
	s.policy.Store(uint32(spec.Policy))
	s.frameUS, s.frameStart = uint32(spec.Frame/time.Microsecond), spec.FrameStart
	s.owner = uint32(os.Geteuid())
	put(s.job[:], spec.Job)
	for i, d := range spec.Devices {
		to := &s.device[i]
		put(to.uuid[:], d.Slice.UUID)
		put(to.model[:], d.Model)
		to.limit, to.physical = uint64(d.Slice.Memory), uint64(d.Physical)
		to.context.Store(uint64(d.Context))
		to.share, to.index, to.mode = uint32(d.Slice.SMShare), uint32(d.Slice.Index), modeNumbers[d.Slice.Mode]
		to.fgpu = uint32(d.Slice.Amount)
		to.open.Store(d.open())
		to.phase.Store(uint32(d.Phase))
	}
}

// write makes a file of dir, whole or not at all. All of it is written, zeros too, so that a full file system is
// an error here and not a signal at a later store.
func write(dir, name string, content []byte, mode fs.FileMode, uid, gid int) (err error) {
	temporary := filepath.Join(dir, "."+name+".new")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // left by a crash
	}
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			os.Remove(temporary)
		}
	}()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Chown(uid, gid); err != nil {
		return fmt.Errorf("give %s to its owner (noded must run as root, or as the job's user): %w", name, err)
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(dir, name))
}

// Open opens the region that is in dir, as noded does when it starts over.
func Open(dir string) (*Region, error) {
	r := &Region{dir: dir}
	slice, err := openSlice(filepath.Join(dir, SliceFile))
	if err != nil {
		return nil, fmt.Errorf("open the region %s: %w", dir, err)
	}
	defer slice.Close()
	if r.slice, err = mapChecked(slice, true); err != nil {
		return nil, fmt.Errorf("open the region %s: %w", dir, err)
	}
	if r.usage, err = openRegular(filepath.Join(dir, UsageFile), os.O_RDWR); err != nil {
		return nil, errors.Join(fmt.Errorf("open the region %s: %w", dir, err), r.slice.unmap())
	}
	return r, nil
}

// openSlice opens a slice file for writing. Where noded is not root its own read-only file is closed to it as well.
func openSlice(path string) (*os.File, error) {
	f, err := openRegular(path, os.O_RDWR)
	if !errors.Is(err, fs.ErrPermission) {
		return f, err
	}
	if err := os.Chmod(path, 0o644); err != nil {
		return nil, err
	}
	f, err = openRegular(path, os.O_RDWR)
	return f, errors.Join(err, os.Chmod(path, 0o444))
}

// openRegular opens a file that must be one, not a link. It does not wait, as for a pipe's other end or for a
// tenant who has a lease on its usage file and keeps it.
func openRegular(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %v, want a regular file", path, info.Mode().Type())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// madeFrom says that a region found is of the job, slices and user of spec. What else is in a Spec may be told otherwise by
// a noded of another configuration or version, and is no reason to take a running job's accounts away. A region whose frames
// begin in the future is from before the machine was started.
func (r *Region) madeFrom(spec Spec) bool {
	if usage, err := r.usage.Stat(); err != nil || usage.Size() != int64(usageSize) || usage.Mode().Perm() != 0o600 {
		return false
	} else if owner, ok := usage.Sys().(*syscall.Stat_t); ok && (int(owner.Uid) != spec.UID || int(owner.Gid) != spec.GID) {
		return false
	}
	if _, err := r.read(); err != nil || r.slice.frameStart > Monotonic() {
		return false
	}
	want := new(sliceFile)
	want.fill(spec)
	have := r.slice
	if have.job != want.job || have.devices != want.devices || have.owner != want.owner {
		return false
	}
	for i := range spec.Devices {
		a, b := &have.device[i], &want.device[i]
		if a.uuid != b.uuid || a.limit != b.limit || a.share != b.share || a.mode != b.mode || a.fgpu != b.fgpu {
			return false
		}
	}
	return true
}

// Spec is what the region was made from, with the contexts and phases it has now.
func (r *Region) Spec() (Spec, error) {
	info := r.Info()
	spec := Spec{Job: info.Job, Policy: info.Policy, Frame: info.Frame, FrameStart: info.FrameStart}
	var owner unix.Stat_t
	if err := unix.Fstat(int(r.usage.Fd()), &owner); err != nil {
		return Spec{}, fmt.Errorf("owner of %s: %w", r.usage.Name(), err)
	}
	spec.UID, spec.GID = int(owner.Uid), int(owner.Gid)
	for _, d := range info.Devices {
		spec.Devices = append(spec.Devices, Device{d.Slice, d.Model, d.Physical, d.Context, d.Phase})
	}
	return spec, nil
}

// Dir is the directory of the region.
func (r *Region) Dir() string { return r.dir }

// Remove closes the region and removes its directory. Processes that have it mapped keep what they have.
func (r *Region) Remove() error { return errors.Join(r.Close(), Remove(r.dir)) }

// Remove removes a region's directory with what this package puts there; nothing there is no error.
func Remove(dir string) error {
	for _, name := range []string{SliceFile, UsageFile, PreloadFile} { // slice first: without it there is no region
		for _, path := range []string{filepath.Join(dir, name), filepath.Join(dir, "."+name+".new")} {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Monotonic is the clock of a region: nanoseconds of CLOCK_MONOTONIC, the same in every process of the machine.
func Monotonic() uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic("internal error: impossible: no monotonic clock: " + err.Error())
	}
	return uint64(now.Nano())
}
