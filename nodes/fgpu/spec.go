package fgpu

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"fairslice/nodes"
)

// Policy says what a slice may use of the GPU's time while nobody else wants it.
type Policy uint32

const (
	Hard  Policy = 0 // its share, never more
	Burst Policy = 1 // all of it while no other slice of the GPU is active
)

// ParsePolicy reads what String prints.
func ParsePolicy(s string) (Policy, error) {
	switch s {
	case "hard":
		return Hard, nil
	case "burst":
		return Burst, nil
	}
	return 0, fmt.Errorf("share policy %q: want hard (never more than the share) or burst (more while nobody else wants it)", s)
}

func (p Policy) String() string {
	switch p {
	case Hard:
		return "hard"
	case Burst:
		return "burst"
	}
	return fmt.Sprintf("policy %d", uint32(p))
}

// Whole is all of something that is counted in 1/100 percent: shares, utilizations, parts of a frame.
const Whole = 10_000

// DefaultFrame is the length of a throttle frame: long against a kernel, short against what a person notices.
const DefaultFrame = 100 * time.Millisecond

// Spec is what a region is made from and does not change while it exists, except Device.Context.
type Spec struct {
	Job      string   // display id, "12[3]"; longer than 63 bytes: cut
	Devices  []Device // 1 to 16, one for each slice
	Policy   Policy
	UID, GID int // of the job's user, who owns what the job's processes write
	// Frame is the throttle frame, 1 ms to 10 s; FrameStart a moment (Monotonic) at which one began. Both are the
	// same for all jobs of a node, so that windows of different jobs keep apart.
	Frame      time.Duration
	FrameStart uint64
}

// Device is one slice and what is known of its GPU.
type Device struct {
	Slice    nodes.Slice
	Model    string // longer than 63 bytes: cut
	Physical int64  // bytes of the whole GPU
	Context  int64  // bytes of one context
	// Phase is where the slice's window begins in the frame, in 1/100 percent; see Phases.
	Phase int
}

// The numbers of the modes in the file.
var modeNumbers = map[nodes.Mode]uint32{nodes.ModeCount: 0, nodes.ModeShim: 1, nodes.ModeMPS: 2, nodes.ModeMIG: 3}

func modeOf(number uint32) (nodes.Mode, bool) {
	for mode, n := range modeNumbers {
		if n == number {
			return mode, true
		}
	}
	return "", false
}

// check lists everything that is wrong with s.
func (s Spec) check() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if n := len(s.Devices); n < 1 || n > maxDevices {
		bad("%d devices: want 1 to %d", n, maxDevices)
	}
	if s.Policy != Hard && s.Policy != Burst {
		bad("%v: want hard or burst", s.Policy)
	}
	if s.UID < 0 || s.GID < 0 {
		bad("user %d, group %d: want ids of a user, not negative", s.UID, s.GID)
	}
	if s.Frame < time.Millisecond || s.Frame > 10*time.Second {
		bad("a frame of %v: want 1ms to 10s", s.Frame)
	}
	seen := map[string]bool{}
	for i, d := range s.Devices {
		at := func(format string, args ...any) {
			bad("device %d (%s): %w", i, d.Slice.UUID, fmt.Errorf(format, args...))
		}
		if u := d.Slice.UUID; u == "" || len(u) > 47 || strings.ContainsRune(u, 0) {
			at("a GPU's id has 1 to 47 bytes")
		} else if seen[u] {
			at("twice")
		}
		seen[d.Slice.UUID] = true
		if d.Slice.Memory < 0 || d.Physical < 0 || d.Context < 0 {
			at("limit %d, memory %d, context %d bytes: want none negative", d.Slice.Memory, d.Physical, d.Context)
		}
		if d.Slice.Index < 0 || d.Slice.Index > math.MaxUint32 || d.Slice.Amount < 0 || d.Slice.Amount > math.MaxUint32 {
			at("index %d, %d/100 fGPU: out of range", d.Slice.Index, int64(d.Slice.Amount))
		}
		least := 0
		if d.Slice.Mode == nodes.ModeShim {
			least = 1 // a window of nothing is a job that waits for ever
		}
		if d.Slice.SMShare < least || d.Slice.SMShare > Whole {
			at("a share of %d/100 percent: want %d to %d", d.Slice.SMShare, least, Whole)
		}
		if d.Phase < 0 || d.Phase >= Whole {
			at("a window at %d/100 percent of the frame: want 0 to %d", d.Phase, Whole-1)
		}
		if _, ok := modeNumbers[d.Slice.Mode]; !ok {
			at("mode %q: want mig, mps, shim or count", d.Slice.Mode)
		}
	}
	return errors.Join(problems...)
}

// open is the part of the frame a slice begins with. Only the shim's own throttle uses it: elsewhere the share is
// kept by others, and the gate stays open.
func (d Device) open() uint32 {
	if d.Slice.Mode != nodes.ModeShim {
		return Whole
	}
	return uint32(d.Slice.SMShare)
}

// put copies s with a NUL behind it, cut between characters where it is too long; it is for display.
func put(to []byte, s string) {
	s, _, _ = strings.Cut(s, "\x00")
	for len(s) > len(to)-1 {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	clear(to[copy(to, s):])
}

// text is what put copied.
func text(from []byte) string {
	s, _, _ := strings.Cut(string(from), "\x00")
	return strings.ToValidUTF8(s, "?")
}
