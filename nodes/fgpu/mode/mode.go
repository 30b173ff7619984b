// Package mode chooses how the slices of a GPU are held. It only decides; what it needs to know of the GPU it is told.
//
// The modes, and what they hold, are those of nodes.Mode. "auto" takes MIG where a GPU has been divided, for nothing
// else can be used there, and the shim everywhere else: MPS changes who may share a GPU, and bookkeeping holds
// nothing, so that a site has to ask for these two.
package mode

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"fairslice/nodes"
)

// Auto is the setting that leaves the choice to Choose. The others are the names of nodes.Mode.
const Auto = "auto"

// Settings are the allowed values of the configuration.
var Settings = []string{Auto, string(nodes.ModeMIG), string(nodes.ModeMPS), string(nodes.ModeShim), string(nodes.ModeCount)}

// GPU is what the choice depends on.
type GPU struct {
	Index             int    // for the errors
	UUID              string // likewise
	MIG               bool   // MIG mode is on
	Instances         []Instance
	ComputeCapability string // "9.0"; "" unknown
	ComputeMode       string // as nvidia-smi names it: "Default", "Exclusive_Process"; "" unknown
}

// Instance is a MIG instance of the GPU.
type Instance struct {
	UUID   string
	Shared bool // another compute instance has the same memory
}

// Node is what the choice depends on that is the same for all GPUs of a node.
type Node struct {
	Shim bool // libfgpu.so is installed
	MPS  bool // nvidia-cuda-mps-control is installed
}

// Choose picks the mode of a GPU for a setting (see Settings; "" is auto), and says why in half a sentence for people.
// An error says what stands against the setting and what to do. The GPU then must not be offered: a weaker mode is
// never taken in place of the one that was asked for.
func Choose(g GPU, n Node, setting string) (nodes.Mode, string, error) {
	switch setting {
	case "", Auto:
		if g.MIG {
			return mig(g)
		}
		return shim(g, n, "it is not in MIG mode")
	case string(nodes.ModeMIG):
		return mig(g)
	case string(nodes.ModeMPS):
		return mps(g, n)
	case string(nodes.ModeShim):
		return shim(g, n, "the configuration says so")
	case string(nodes.ModeCount):
		if err := whole(g, setting); err != nil {
			return "", "", err
		}
		return nodes.ModeCount, "the configuration says so; nothing holds a program to its slice", nil
	}
	return "", "", fmt.Errorf("mode %q: want one of %s", setting, strings.Join(Settings, ", "))
}

func mig(g GPU) (nodes.Mode, string, error) {
	if !g.MIG {
		return "", "", g.errorf("mode mig, but MIG mode is off: turn it on (nvidia-smi -i %d -mig 1) and make instances, or choose another mode", g.Index)
	}
	if len(g.Instances) == 0 {
		return "", "", g.errorf("MIG mode is on, but it has no instance: make some (nvidia-smi mig -i %d -cgi PROFILE,... -C), or turn MIG mode off", g.Index)
	}
	for _, it := range g.Instances {
		if it.Shared {
			return "", "", g.errorf("MIG instance %s shares its memory with another compute instance, so that nothing holds the two apart: "+
				"make one compute instance in each GPU instance", it.UUID)
		}
	}
	return nodes.ModeMIG, fmt.Sprintf("MIG mode is on, with %d instances", len(g.Instances)), nil
}

func mps(g GPU, n Node) (nodes.Mode, string, error) {
	if err := whole(g, string(nodes.ModeMPS)); err != nil {
		return "", "", err
	}
	if !n.MPS {
		return "", "", g.errorf("mode mps, but nvidia-cuda-mps-control is not installed on this node")
	}
	if !n.Shim {
		return "", "", g.errorf("mode mps, but libfgpu.so is not installed on this node: MPS limits the memory of a process, and the shim that of a job")
	}
	major, err := majorOf(g.ComputeCapability)
	if err != nil {
		return "", "", g.errorf("mode mps, but its compute capability is %w", err)
	}
	if major < 7 {
		return "", "", g.errorf("mode mps, but its compute capability is %s: MPS holds shares since 7.0; choose shim", g.ComputeCapability)
	}
	if !g.exclusive() {
		return nodes.ModeMPS, "the configuration says so; a program that avoids MPS is held by the shim alone, unless the compute mode is Exclusive_Process", nil
	}
	return nodes.ModeMPS, "the configuration says so; the compute mode keeps programs from avoiding MPS", nil
}

func shim(g GPU, n Node, why string) (nodes.Mode, string, error) {
	if err := whole(g, string(nodes.ModeShim)); err != nil {
		return "", "", err
	}
	if !n.Shim {
		return "", "", g.errorf("mode shim, but libfgpu.so is not installed on this node: install it, or choose count, which holds nothing")
	}
	if g.exclusive() {
		return "", "", g.errorf("mode shim, but its compute mode is %s, so that one process at a time can use it: "+
			"nvidia-smi -i %d -c DEFAULT, or choose mps", g.ComputeMode, g.Index)
	}
	return nodes.ModeShim, why, nil
}

// exclusive: one process at a time can use the GPU. (Exclusive_Thread is its name in old drivers.)
func (g GPU) exclusive() bool {
	return g.ComputeMode == "Exclusive_Process" || g.ComputeMode == "Exclusive_Thread"
}

// whole: a GPU in MIG mode can be used through its instances only, and one whose compute mode is Prohibited not at all.
func whole(g GPU, setting string) error {
	if g.ComputeMode == "Prohibited" {
		return g.errorf("its compute mode is Prohibited, so that no program can use it: nvidia-smi -i %d -c DEFAULT", g.Index)
	}
	if g.MIG {
		return g.errorf("mode %s, but MIG mode is on: choose mig or auto, or turn it off (nvidia-smi -i %d -mig 0)", setting, g.Index)
	}
	return nil
}

func majorOf(capability string) (int, error) {
	if capability == "" {
		return 0, errors.New("not known")
	}
	major, minor, _ := strings.Cut(capability, ".")
	n, err := strconv.ParseUint(major, 10, 16)
	if _, errMinor := strconv.ParseUint(minor, 10, 16); err != nil || errMinor != nil {
		return 0, fmt.Errorf("%q: want MAJOR.MINOR", capability)
	}
	return int(n), nil
}

func (g GPU) errorf(format string, args ...any) error {
	return fmt.Errorf("GPU %d (%s): %w", g.Index, g.UUID, fmt.Errorf(format, args...))
}
