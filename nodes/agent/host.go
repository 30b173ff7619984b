package agent

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// hostType is LSF's word for this kind of machine.
func hostType() string {
	switch runtime.GOARCH {
	case "amd64":
		return "X86_64"
	case "arm64":
		return "LINUX_ARM64"
	}
	return strings.ToUpper(runtime.GOARCH)
}

// loadAndMemory reads the machine's load of the last minute and the bytes that programs could still use.
func loadAndMemory() (load float64, available int64) {
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		first, _, _ := strings.Cut(string(text), " ")
		load, _ = strconv.ParseFloat(first, 64)
	}
	return load, memInfo("MemAvailable")
}

// memInfo reads one line of /proc/meminfo, in bytes; 0 when it is not there.
func memInfo(name string) int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb << 10
		}
	}
	return 0
}

// HostFacts are what the inventory needs besides the configuration.
func HostFacts() (cores int, memory int64, kind, model string) {
	return runtime.NumCPU(), memInfo("MemTotal"), hostType(), cpuModel()
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
