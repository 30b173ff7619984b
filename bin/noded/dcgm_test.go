package main

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/nodes/agent"
	"fairslice/queue"
)

func sliceOf(job queue.JobID, element, gpu, instance int) agent.SliceState {
	return agent.SliceState{Job: queue.ElementID{Job: job, Index: element}, Slice: nodes.Slice{Index: gpu}, Instance: instance}
}

// files reads all files of a directory, hidden ones too.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		if e.IsDir() {
			out[e.Name()] = "(directory)"
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(text)
	}
	return out
}

func TestJobMappingFollowsTheSlices(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	m, err := openJobMapping(dir, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	none := agent.NoInstance
	for _, step := range []struct {
		what string
		held []agent.SliceState
		want map[string]string
	}{
		{"nothing runs", nil, map[string]string{}},
		{"two jobs share a GPU, in the order of their numbers", []agent.SliceState{sliceOf(20, 0, 0, none), sliceOf(3, 0, 0, none)}, map[string]string{"0": "3\n20\n"}},
		{"elements of an array on two GPUs", []agent.SliceState{sliceOf(20, 2, 1, none), sliceOf(20, 1, 0, none)}, map[string]string{"0": "20[1]\n", "1": "20[2]\n"}},
		{"one job has two slices of a GPU", []agent.SliceState{sliceOf(5, 0, 1, none), sliceOf(5, 0, 1, none)}, map[string]string{"1": "5\n"}},
		{"instances of a GPU in MIG mode", []agent.SliceState{sliceOf(5, 0, 1, 0), sliceOf(6, 0, 1, 7)}, map[string]string{"1.0": "5\n", "1.7": "6\n"}},
		{"all have ended", nil, map[string]string{}},
	} {
		m.write(step.held)
		if got := files(t, dir); !maps.Equal(got, step.want) {
			t.Errorf("%s: %q, want %q", step.what, got, step.want)
		}
	}
	if log.Len() > 0 {
		t.Error(log.String())
	}
}

func TestJobMappingClearsItsOwnFilesOnly(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"0": "7\n", "3.1": "8\n", ".2.new": "half", "README": "of the site", "1x": "?", ".hidden": "?"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "5"), 0o755); err != nil {
		t.Fatal(err)
	}
	m, err := openJobMapping(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	others := map[string]string{"README": "of the site", "1x": "?", ".hidden": "?", "5": "(directory)"}
	if got := files(t, dir); !maps.Equal(got, others) {
		t.Errorf("after the start: %q", got)
	}
	m.write([]agent.SliceState{sliceOf(1, 0, 0, agent.NoInstance)})
	m.write(nil)
	if got := files(t, dir); !maps.Equal(got, others) {
		t.Errorf("after the end: %q", got)
	}
}

func TestJobMappingThatFailsIsTriedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mapping")
	if _, err := openJobMapping(dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "dcgm_job_mapping_dir") {
		t.Errorf("a directory that is not there: %v", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	m, err := openJobMapping(dir, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	held := []agent.SliceState{sliceOf(1, 0, 0, agent.NoInstance)}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	m.write(held)
	if !strings.Contains(log.String(), "job mapping for dcgm not written") {
		t.Errorf("nothing was logged: %q", log.String())
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m.write(held)
	if got := files(t, dir); !maps.Equal(got, map[string]string{"0": "1\n"}) {
		t.Errorf("%q", got)
	}
}

func TestJobMappingFollowsNoLink(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(outside, []byte("of others"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".0.new", "0"} {
		if err := os.Symlink(outside, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	m, err := openJobMapping(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	m.write([]agent.SliceState{sliceOf(1, 0, 0, agent.NoInstance)})
	if text, _ := os.ReadFile(outside); string(text) != "of others" {
		t.Errorf("written through a link: %q", text)
	}
	if info, err := os.Lstat(filepath.Join(dir, "0")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the file is not one: %v %v", info, err)
	}
}

// The files are there after the first look, follow each tick, and are gone at the end.
func TestJobMappingFollowsTicks(t *testing.T) {
	dir := t.TempDir()
	m, err := openJobMapping(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	looks := []agent.SliceState{sliceOf(1, 0, 0, agent.NoInstance), sliceOf(2, 0, 1, agent.NoInstance)}
	var seen []map[string]string // before each look
	ctx, cancel := context.WithCancel(t.Context())
	tick := make(chan time.Time, len(looks))
	m.follow(ctx, func() []agent.SliceState {
		seen = append(seen, files(t, dir))
		n := len(seen) - 1
		if n == len(looks) {
			cancel()
			return nil
		}
		tick <- time.Time{}
		return looks[n : n+1]
	}, tick)
	if len(seen) != 3 || len(seen[0]) != 0 || !maps.Equal(seen[1], map[string]string{"0": "1\n"}) || !maps.Equal(seen[2], map[string]string{"1": "2\n"}) {
		t.Errorf("%q", seen)
	}
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}
