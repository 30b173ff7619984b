package simdriver

import (
	"fmt"
	"strconv"
	"strings"
)

// MIGVar says which GPUs of a simulated node are in MIG mode, and into what they are divided. Unset or
// empty: none is. The grammar is described in mig.h.
const MIGVar = "FAIRSLICE_SIM_MIG"

const (
	migSlices   = 7  // of a GPU
	migSliceSMs = 14 // of each slice: 98 of the simulated GPU's 100 can be used
	migGrammar  = "want GPU:PROFILE,PROFILE*COUNT;GPU:... such as 0:3g.4gb,3g.4gb;1:1g.1gb*7: a profile is " +
		"SLICESg.GIBgb, or COMPUTESLICESc.SLICESg.GIBgb for a part of one; 7 slices and the GPU's memory are there to divide; " +
		"0: alone is GPU 0 in MIG mode without instances"
)

// Instance is one compute instance of a simulated GPU in MIG mode.
type Instance struct {
	GPU             int // index of the GPU that it is a part of
	GPUInstance     int // id, from 1 on each GPU; instances with the same one share its memory
	ComputeInstance int // id, from 0 in each GPU instance
	Profile         string
	SMs             int
	Bytes           int64 // of memory of the GPU instance
}

// MIG is what ParseMIG reads.
type MIG struct {
	GPUs      []int // in MIG mode, in the order of the text; some may have no instance
	Instances []Instance
}

// ParseMIG reads the division into MIG instances of a node with count GPUs of bytes memory each. Empty text is
// valid: no GPU is in MIG mode. The error says what is wrong and what is allowed.
// The driver reads the same grammar (mig.c): change both.
func ParseMIG(text string, count int, bytes int64) (MIG, error) {
	var m MIG
	if text == "" {
		return m, nil
	}
	for part := range strings.SplitSeq(text, ";") {
		if err := m.addGPU(part, count, bytes); err != nil {
			return MIG{}, fmt.Errorf("simulated MIG instances %q: %q: %w; %s", text, part, err, migGrammar)
		}
	}
	return m, nil
}

func (m *MIG) addGPU(part string, count int, bytes int64) error {
	gpu, list, ok := migNumber(part)
	if !ok || !strings.HasPrefix(list, ":") {
		return fmt.Errorf("it must begin with the index of a GPU and a colon")
	}
	if gpu >= count {
		return fmt.Errorf("the node has %d GPUs", count)
	}
	for _, other := range m.GPUs {
		if other == gpu {
			return fmt.Errorf("GPU %d is named twice", gpu)
		}
	}
	m.GPUs = append(m.GPUs, gpu)
	if list = list[1:]; list == "" {
		return nil
	}
	room := migRoom{slices: migSlices, bytes: bytes}
	for item := range strings.SplitSeq(list, ",") {
		p, times, err := parseMIGItem(item)
		if err != nil {
			return err
		}
		for range times {
			if err := m.add(&room, gpu, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// migProfile: compute is 0 where the profile names none, which means all of the slices.
type migProfile struct{ compute, slices, gib int }

func parseMIGItem(item string) (p migProfile, times int, err error) {
	bad := func(why string) (migProfile, int, error) {
		return migProfile{}, 0, fmt.Errorf("%q: %s", item, why)
	}
	n, rest, ok := migNumber(item)
	if after, is := strings.CutPrefix(rest, "c."); ok && is {
		if n == 0 {
			return bad("a compute instance has slices")
		}
		p.compute = n
		n, rest, ok = migNumber(after)
	}
	p.slices = n
	rest, is := strings.CutPrefix(rest, "g.")
	if !ok || !is {
		return bad("no profile")
	}
	p.gib, rest, ok = migNumber(rest)
	rest, is = strings.CutPrefix(rest, "gb")
	if !ok || !is {
		return bad("no profile")
	}
	if p.slices == 0 || p.slices > migSlices || p.gib == 0 || p.compute > p.slices {
		return bad("there is no such instance")
	}
	times = 1
	if count, is := strings.CutPrefix(rest, "*"); is {
		times, rest, ok = migNumber(count)
		if !ok || times == 0 {
			return bad("a number must follow the *")
		}
	}
	if rest != "" {
		return bad(fmt.Sprintf("%q is too much", rest))
	}
	return p, times, nil
}

// migRoom is what is left of the GPU that is being divided, and of its newest GPU instance.
type migRoom struct {
	slices       int
	bytes        int64
	gpuInstances int
	open         migProfile // compute is what is left of it; slices 0: none is open
	openCompute  int        // compute instances in it
}

func (m *MIG) add(room *migRoom, gpu int, p migProfile) error {
	compute := p.compute
	if compute == 0 {
		compute = p.slices
	}
	bytes := int64(p.gib) << 30
	if p.compute == 0 || room.open.slices != p.slices || room.open.gib != p.gib || room.open.compute < compute {
		if p.slices > room.slices || bytes > room.bytes {
			return fmt.Errorf("GPU %d has %d slices and %d MiB left, too little for %dg.%dgb", gpu, room.slices, room.bytes>>20, p.slices, p.gib)
		}
		room.slices -= p.slices
		room.bytes -= bytes
		room.gpuInstances++
		room.openCompute = 0
		room.open = migProfile{p.slices, p.slices, p.gib}
	}
	room.open.compute -= compute
	profile := fmt.Sprintf("%dg.%dgb", p.slices, p.gib)
	if compute < p.slices {
		profile = fmt.Sprintf("%dc.%s", compute, profile)
	}
	m.Instances = append(m.Instances, Instance{GPU: gpu, GPUInstance: room.gpuInstances, ComputeInstance: room.openCompute,
		Profile: profile, SMs: compute * migSliceSMs, Bytes: bytes})
	room.openCompute++
	return nil
}

// migNumber takes digits from the front of s, at most four.
func migNumber(s string) (n int, rest string, ok bool) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	if i == 0 || i > 4 {
		return 0, s, false
	}
	n, err := strconv.Atoi(s[:i])
	return n, s[i:], err == nil
}
