package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawTasks are a few tasks on a small machine, crowded so that much happens at one instant.
func drawTasks(t *rapid.T, procs int64) []Task {
	var tasks []Task
	now := int64(0)
	for i := range rapid.IntRange(1, 14).Draw(t, "tasks") {
		now += rapid.Int64Range(0, 6).Draw(t, "after")
		limit := rapid.Int64Range(1, 20).Draw(t, "limit")
		run := limit
		if rapid.Bool().Draw(t, "early") {
			run = rapid.Int64Range(1, limit).Draw(t, "run")
		}
		tasks = append(tasks, Task{ID: int64(i + 1), Submit: now, Run: run, Limit: limit, Procs: rapid.Int64Range(1, procs).Draw(t, "procs")})
	}
	return tasks
}

func tell(tasks []Task, got, want []int64) string {
	var b strings.Builder
	for i, x := range tasks {
		mark := ""
		if got[i] != want[i] {
			mark = fmt.Sprintf(" <- and not at %d", got[i])
		}
		fmt.Fprintf(&b, "job %d submitted at %d: %d processors, limit %d, runs %d; starts at %d%s\n", x.ID, x.Submit, x.Procs, x.Limit, x.Run, want[i], mark)
	}
	return b.String()
}

// TestReplayIsTheOracle: on any workload the planner gives the starts of the reference.
func TestReplayIsTheOracle(t *testing.T) {
	for _, policy := range slices.Sorted(maps.Keys(policies)) {
		t.Run(policy, rapid.MakeCheck(func(t *rapid.T) {
			procs := rapid.Int64Range(1, 6).Draw(t, "machine")
			tasks := drawTasks(t, procs)
			s, err := Replay(tasks, Options{Nodes: Machine(procs), Policy: policies[policy]})
			if err != nil {
				t.Fatal(err)
			}
			if want := oracleReplay(tasks, procs, policy); !slices.Equal(s.Starts, want) {
				t.Fatalf("%s on %d processors:\n%s", policy, procs, tell(tasks, s.Starts, want))
			}
		}))
	}
}
