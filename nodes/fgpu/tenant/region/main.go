// Command mkregion makes the region of one slice by hand, for checks on a machine without noded: "mkregion DIR UUID
// BYTES SHARE [CONTEXT]" makes it in DIR and prints the environment ("NAME=value" lines) with which programs
// run in that slice. SHARE is in percent. "mkregion -sweep DIR" clears the slots of processes that have ended, as noded does
// each second, and prints what is held. Nothing watches or corrects such a slice; what it holds is the shim's work alone.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"fairslice/nodes"
	"fairslice/nodes/fgpu"
)

const usage = `usage: mkregion DIR UUID BYTES SHARE [CONTEXT]
       mkregion -sweep DIR
BYTES: the limit, contexts included. SHARE: percent of the GPU's time, 0.01 to 100. CONTEXT: bytes of one context (default 0).
`

func main() {
	err := run(os.Args[1:])
	if errors.Is(err, errUsage) {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mkregion:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage")

func run(args []string) error {
	if len(args) == 2 && args[0] == "-sweep" {
		return sweep(args[1])
	}
	if len(args) < 4 || len(args) > 5 {
		return errUsage
	}
	limit, err := bytes(args[2])
	if err != nil {
		return err
	}
	share, err := percent(args[3])
	if err != nil {
		return err
	}
	device := fgpu.Device{
		Slice:    nodes.Slice{UUID: args[1], Memory: limit, SMShare: share, Mode: nodes.ModeShim},
		Physical: limit, // whoever makes a region by hand need not know the GPU; the smaller of the two counts
	}
	if len(args) == 5 {
		if device.Context, err = bytes(args[4]); err != nil {
			return err
		}
	}
	dir, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	library, err := shim()
	if err != nil {
		return err
	}
	region, err := fgpu.Create(dir, fgpu.Spec{
		Job: "by hand", Devices: []fgpu.Device{device}, Policy: fgpu.Hard, UID: os.Getuid(), GID: os.Getgid(),
		Frame: fgpu.DefaultFrame, FrameStart: fgpu.Monotonic(),
	})
	if err != nil {
		return err
	}
	fmt.Printf("LD_PRELOAD=%s\nFAIRSLICE_FGPU_DIR=%s\nCUDA_VISIBLE_DEVICES=%s\n", library, dir, args[1])
	return region.Close()
}

// shim is the library that lies beside this program.
func shim() (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(program), "libfgpu.so")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the shim must lie beside this program: %w", err)
	}
	return path, nil
}

func bytes(word string) (int64, error) {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q: want a number of bytes", word)
	}
	return n, nil
}

func percent(word string) (int, error) {
	f, err := strconv.ParseFloat(word, 64)
	if share := int(f*100 + 0.5); err == nil && share >= 1 && share <= fgpu.Whole {
		return share, nil
	}
	return 0, fmt.Errorf("share %q: want a percentage from 0.01 to 100", word)
}

func sweep(dir string) error {
	region, err := fgpu.Open(dir)
	if err != nil {
		return err
	}
	defer region.Close()
	if _, err := region.Sweep(fgpu.Processes{}.Alive); err != nil {
		return err
	}
	all, err := region.Usage()
	if err != nil {
		return err
	}
	for i, u := range all {
		fmt.Printf("device %d held %d processes %d denied %d launches %d throttled_ns %d peak %d\n", i, u.Held, u.Processes, u.Denied, u.Launches,
			u.Throttled.Nanoseconds(), u.Peak)
	}
	return nil
}
