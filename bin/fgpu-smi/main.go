// Command fgpu-smi shows, inside a job, the job's slices of GPUs: what it may use, what it uses, and its last minutes. It
// reads what noded writes and asks no driver, so it is there where nvidia-smi is not.
package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"fairslice/nodes/fgpu"
)

// version is set by the Makefile.
var version = "0.1.0"

func main() {
	s := system{
		getenv: os.Getenv, find: fgpu.Find, now: time.Now(), monotonic: fgpu.Monotonic(), program: programName,
		open: func(dir string) (region, error) { return fgpu.OpenReadOnly(dir) },
	}
	os.Exit(run(os.Args[1:], s, os.Stdout, os.Stderr))
}

// programName is the name of a process, "" when it has ended or is not ours to see.
func programName(pid int) string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(text), "\n")
}
