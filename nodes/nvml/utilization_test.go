package nvml

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"fairslice/nodes/fgpu/simdriver"
)

func TestProcessUtilization(t *testing.T) {
	t.Setenv(simdriver.MIGVar, "1:7g.8gb")
	state := node(t, "2x8GiB", "n1")
	l := open(t)
	list := devices(t, l)
	begin := time.Now().Add(-time.Second)
	if got, err := l.ProcessUtilization(list[0].UUID, begin); err != nil || len(got) != 0 {
		t.Errorf("idle: %v, %v", got, err)
	}
	me, parent := os.Getpid(), os.Getppid()
	err := simdriver.SetProcesses(state, 0, []simdriver.Process{{PID: me, Bytes: gib, SMPercent: 25}, {PID: parent, SMPercent: 30}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.ProcessUtilization(list[0].UUID, begin)
	want := map[int]float64{me: 25, parent: 30}
	if err != nil || len(got) != 2 || !slices.IsSortedFunc(got, func(a, b ProcessUtilization) int { return a.Pid - b.Pid }) {
		t.Fatalf("got %v, %v", got, err)
	}
	for _, p := range got {
		if p.SMUtil != want[p.Pid] || p.At.Before(begin) || p.At.After(time.Now()) {
			t.Errorf("got %+v, want %v percent", p, want[p.Pid])
		}
	}
	if got, err := l.ProcessUtilization(list[0].UUID, time.Now().Add(time.Hour)); err != nil || len(got) != 0 {
		t.Errorf("of the future: %v, %v", got, err)
	}
	if _, err := l.ProcessUtilization(list[1].UUID, begin); !errors.Is(err, ErrUnsupported) {
		t.Errorf("under MIG: %v", err)
	}
	if err := simdriver.SetLost(state, 0, true); err != nil {
		t.Fatal(err)
	}
	if _, err := l.ProcessUtilization(list[0].UUID, begin); !errors.Is(err, ErrLost) {
		t.Errorf("of a lost GPU: %v", err)
	}
}

func TestMeanByProcess(t *testing.T) {
	got := meanByProcess([]nvml.ProcessUtilizationSample{
		{Pid: 7, TimeStamp: 2_000_000, SmUtil: 10},
		{Pid: 7, TimeStamp: 3_000_000, SmUtil: 15},
		{Pid: 5, TimeStamp: 2_500_000, SmUtil: 100},
		{Pid: 7, TimeStamp: 1_000_000, SmUtil: 90},        // not newer
		{Pid: 0, TimeStamp: 2_000_000, SmUtil: 50},        // a slot that was never filled
		{Pid: 9, TimeStamp: 2_000_000, SmUtil: 4_000_000}, // or never cleared
	}, 1_000_000)
	want := []ProcessUtilization{{5, 100, time.UnixMicro(2_500_000)}, {7, 12.5, time.UnixMicro(3_000_000)}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestComputeMode(t *testing.T) {
	node(t, "1x8GiB", "n1")
	if d := devices(t, open(t))[0]; d.ComputeMode != ComputeDefault || !d.MPS() {
		t.Errorf("got %+v", d)
	}
	for mode, want := range map[nvml.ComputeMode]ComputeMode{nvml.COMPUTEMODE_EXCLUSIVE_PROCESS: ComputeExclusiveProcess,
		nvml.COMPUTEMODE_PROHIBITED: ComputeProhibited, nvml.COMPUTEMODE_EXCLUSIVE_THREAD: ComputeExclusiveThread, 9: "mode 9"} {
		if got := computeMode(mode); got != want {
			t.Errorf("%d is %q, want %q", mode, got, want)
		}
	}
	for capability, want := range map[string]bool{"7.0": true, "12.0": true, "6.1": false, "": false, "x": false} {
		if got := (Device{ComputeCapability: capability}).MPS(); got != want {
			t.Errorf("MPS on %q: %v", capability, got)
		}
	}
}

// What an old driver lacks is said as such.
func lackOf(l *Library, uuid string) string {
	_, utilization := l.ProcessUtilization(uuid, time.Time{})
	instances, err := l.Instances(uuid)
	return fmt.Sprint(errors.Is(utilization, ErrUnsupported), len(instances), err, l.MemoryLimits() == nil)
}
