// Package simdriver makes nodes with GPUs out of machines without any: it holds the C sources of a
// simulated NVIDIA driver, builds them, and sets its knobs. Programs load the built library exactly
// as the real one; whatever of it a person sees says "simulated".
//
// It owns the grammar of a simulated node (ParseSpec, ParseMIG), its environment and its configuration file (Env,
// WriteConf), and the state that all processes of such a node share (SetProcesses, SetLost; the format is
// described in ledger.h). It does not read NVML: that is nodes/nvml, for a simulated driver as for a real one.
package simdriver

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"fairslice/nodes/fgpu/abi"
)

// Variables that the simulated driver reads: from simulated.conf beside its libraries (see WriteConf), or, where there
// is no such file, from the environment of the process that loads it.
const (
	GPUsVar    = "FAIRSLICE_SIM_GPUS"    // COUNTxSIZE, required
	NodeVar    = "FAIRSLICE_SIM_NODE"    // node name, the seed of the UUIDs; unset: the host name
	StateVar   = "FAIRSLICE_SIM_STATE"   // directory of the node's state; unset: each process has GPUs of its own
	ContextVar = "FAIRSLICE_SIM_CONTEXT" // memory that a context costs, 0 or a size such as 64MiB, which is the default
	BlockVar   = "FAIRSLICE_SIM_BLOCK"   // nanoseconds that a block of a kernel keeps one of the 100 SMs busy; default 100000
	CUDAVar    = "FAIRSLICE_SIM_CUDA"    // version of the driver, 1000*major + 10*minor; default 13000
)

// Files that Build makes in its output directory.
const (
	LibraryName     = "libnvidia-ml.so.1"
	CUDALibraryName = "libcuda.so.1"
	IoctlName       = "sim-ioctl"               // holds GPU memory without any CUDA library (ioctl.c)
	MPSControlName  = "nvidia-cuda-mps-control" // says "simulated" where the real one says its version
)

// Files are the names of all that Build makes. The two libraries are what a container needs, with ConfName beside them.
func Files() []string { return []string{CUDALibraryName, LibraryName, IoctlName, MPSControlName} }

const (
	maxGPUs = 64
	maxMiB  = 16 << 20 // 16 TiB
	grammar = "want COUNTxSIZE such as 2x8GiB: at most 64 GPUs, each of 1MiB to 16384GiB; " +
		"units G, GB, GiB (1024^3 bytes) and M, MB, MiB (1024^2 bytes), whole numbers, no spaces"
)

// ParseSpec reads "COUNTxSIZE": how many GPUs a simulated node has, and the bytes of memory of each.
// The size is a whole number with a unit, of which upper and lower case are the same. G and GB mean
// GiB, and M and MB mean MiB, as GPU vendors use them. The error says what is allowed.
// The driver reads the same grammar (spec.c): change both.
func ParseSpec(s string) (count int, bytes int64, err error) {
	bad := func(why string) (int, int64, error) {
		return 0, 0, fmt.Errorf("simulated GPUs %q: %s; %s", s, why, grammar)
	}
	gpus, rest, ok := number(s)
	if !ok {
		return bad("it must begin with a number of GPUs")
	}
	if rest == "" || lower(rest[0]) != 'x' {
		return bad("an x must follow the number of GPUs")
	}
	mib, unit, ok := number(rest[1:])
	if !ok {
		return bad("a number must follow the x")
	}
	switch lowered(unit) {
	case "g", "gb", "gib":
		mib *= 1024
	case "m", "mb", "mib":
	default:
		return bad(fmt.Sprintf("%q is not a unit of memory", unit))
	}
	if gpus > maxGPUs {
		return bad("too many GPUs")
	}
	if mib == 0 {
		return bad("a GPU has some memory")
	}
	if mib > maxMiB {
		return bad("too much memory for one GPU")
	}
	return int(gpus), mib << 20, nil
}

// number takes digits from the front of s: nine at most, so that nothing overflows before its range
// is checked.
func number(s string) (n int64, rest string, ok bool) {
	i := 0
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		if i == 9 {
			return 0, s, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, s[i:], i > 0
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// lowered is ASCII only, as in C: Unicode has letters beside K and S that fold into these.
func lowered(s string) string {
	b := []byte(s)
	for i, c := range b {
		b[i] = lower(c)
	}
	return string(b)
}

// Env returns the environment entries ("NAME=value") that make a process see spec's GPUs as those of
// the named node. Two nodes of one machine need two names, else their GPUs have the same UUIDs.
func Env(spec, node string) ([]string, error) {
	if _, _, err := ParseSpec(spec); err != nil {
		return nil, err
	}
	if node == "" || strings.ContainsRune(node, 0) {
		return nil, fmt.Errorf("simulated node %q: a node name is needed, without NUL", node)
	}
	return []string{GPUsVar + "=" + spec, NodeVar + "=" + node}, nil
}

//go:embed build.sh *.c *.h *.def
var sources embed.FS

// Build compiles the simulated driver into outDir (made if missing) with the C compiler $CC,
// default cc, and replaces an older one there; processes that have loaded that are not disturbed.
// The sources are in this program: no source tree is needed.
func Build(ctx context.Context, outDir string) error {
	out, err := filepath.Abs(outDir)
	if err != nil {
		return fmt.Errorf("build the simulated driver: %w", err)
	}
	src, err := os.MkdirTemp("", "fairslice-simdriver-")
	if err != nil {
		return fmt.Errorf("build the simulated driver: %w", err)
	}
	defer os.RemoveAll(src)
	// Side by side, as in the source tree.
	here := filepath.Join(src, "simdriver")
	if err := errors.Join(os.CopyFS(here, sources), os.CopyFS(filepath.Join(src, "abi"), abi.Headers)); err != nil {
		return fmt.Errorf("build the simulated driver: %w", err)
	}
	cmd := exec.CommandContext(ctx, "sh", filepath.Join(here, "build.sh"))
	cmd.Env = append(os.Environ(), "OUT="+out)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the simulated driver (a C compiler is needed): %w\n%s", err, text)
	}
	return nil
}

// Process is what one process is declared to hold and do on one simulated GPU, whether or not it uses the driver.
type Process struct {
	PID       int   // a live process: the driver leaves dead ones out
	Bytes     int64 // memory held
	SMPercent int   // 0 to 100
}

// SetProcesses replaces the list of declared processes on GPU number gpu of the node whose state is in
// stateDir. They come on top of those that use the simulated driver. Every process of the node sees it at its next question. Of several writers the last wins.
func SetProcesses(stateDir string, gpu int, list []Process) error {
	var text strings.Builder
	for _, p := range list {
		if p.PID <= 0 || p.Bytes < 0 || p.SMPercent < 0 || p.SMPercent > 100 {
			return fmt.Errorf("simulated process %+v: out of range", p)
		}
		fmt.Fprintln(&text, p.PID, p.Bytes, p.SMPercent)
	}
	f, err := os.CreateTemp(stateDir, ".gpu-")
	if err != nil {
		return fmt.Errorf("simulated GPU %d: %w", gpu, err)
	}
	_, err = f.WriteString(text.String())
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), statePath(stateDir, gpu))
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("simulated GPU %d: %w", gpu, err)
	}
	return nil
}

// SetLost lets GPU number gpu fall off the bus, or come back.
func SetLost(stateDir string, gpu int, lost bool) error {
	path := statePath(stateDir, gpu) + ".lost"
	if !lost {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("simulated GPU %d: %w", gpu, err)
		}
		return nil
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		return fmt.Errorf("simulated GPU %d: %w", gpu, err)
	}
	return nil
}

func statePath(dir string, gpu int) string { return filepath.Join(dir, "gpu"+strconv.Itoa(gpu)) }
