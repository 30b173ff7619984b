package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMonthsAreWrittenOnceAndWhole(t *testing.T) {
	t.Parallel()
	y := newYears(t)
	m := &months{y.store, y.cfg, y.now, y.log}
	dir := y.conf.Accounting.MonthlyDir
	y.conf.Accounting.MonthlyDir = ""
	if err := m.run(t.Context()); err != nil || len(names(t, dir)) > 0 {
		t.Errorf("off: %v", err)
	}
	y.conf.Accounting.MonthlyDir = dir
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "2026-02.csv") // somebody's own
	for name, text := range map[string]string{own: "mine\n", filepath.Join(dir, ".2026-03.csv.partial"): "of a try that was killed"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	y.at = time.Date(2026, 11, 30, 22, 59, 59, 0, time.UTC) // a second before midnight there
	if err := m.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"2025-11.csv", "2025-12.csv", "2026-01.csv", "2026-02.csv", "2026-03.csv", "2026-04.csv", "2026-05.csv", "2026-06.csv", "2026-07.csv", "2026-08.csv", "2026-09.csv", "2026-10.csv"}
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Fatalf("files: %v", got)
	}
	// September ends at 22:00 UTC: the job of 21:30 is in it, the one of 22:30 is not.
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const head = "account,user,attempts,done,exit,slot_hours,fgpu_hours,gpu_hours,wait_hours,mean_wait_seconds\n"
	if got, want := read("2026-09.csv"), head+"lab,'=1+1,1,0,1,4.000,0.250,0.000,0.025,90.000\nlab,ada,4,2,2,16.000,1.000,0.000,0.100,90.000\n"; got != want {
		t.Errorf("September has\n%swant\n%s", got, want)
	}
	if read("2026-02.csv") != "mine\n" {
		t.Error("a file that was there was written over")
	}
	var all []byte
	for _, name := range want {
		all = append(all, read(name)...)
	}
	// November is over, but nothing has happened since, and more may come for a while.
	y.at = time.Date(2026, 11, 30, 23, 30, 0, 0, time.UTC)
	if err := m.run(t.Context()); err != nil || len(names(t, dir)) != len(want) {
		t.Errorf("too early: %v, %v", names(t, dir), err)
	}
	// Then a job ends in December, but a charge of November is not in the sums yet.
	y.sql(`INSERT INTO events VALUES (1000, 1, '2026-11-30 22:58Z', 1000, 0, '', 'ended', '{}'), (1001, 1, '2026-11-30 23:10Z', 1001, 0, '', 'ended', '{}');
		INSERT INTO charges (job, idx, attempt, seq, user_name, account, queue, began, ended, slot_seconds, fgpu_seconds, cpu_ns, max_memory, slots, fgpu, gpus, memory, waited_ms, outcome)
		VALUES (1000, 0, 1, 1000, 'ada', 'lab', 'gpu', '2026-11-30 22:57Z', '2026-11-30 22:58Z', 0, 0, 0, 0, 60, 0, 0, 0, 0, 'done')`)
	if err := m.run(t.Context()); err != nil || len(names(t, dir)) != len(want) {
		t.Errorf("before the roll-up: %v, %v", names(t, dir), err)
	}
	y.rollUp()
	for range 2 {
		if err := m.run(t.Context()); err != nil || len(names(t, dir)) != len(want)+1 {
			t.Fatalf("after it: %v, %v", names(t, dir), err)
		}
		if got, want := read("2026-11.csv"), head+"lab,'=1+1,2,1,1,8.000,0.500,0.000,0.050,90.000\nlab,ada,3,2,1,9.000,0.500,0.000,0.050,60.000\n"; got != want {
			t.Errorf("November has\n%swant\n%s", got, want)
		}
	}
	var again []byte
	for _, name := range want {
		again = append(again, read(name)...)
	}
	if !bytes.Equal(all, again) {
		t.Error("files were changed")
	}
}

// A site where nothing happens any more gets its last month, too; and what cannot be written is tried again, alone.
func TestMonthsOfAQuietSite(t *testing.T) {
	t.Parallel()
	y := newYears(t)
	m := &months{y.store, y.cfg, y.now, y.log}
	dir := y.conf.Accounting.MonthlyDir
	if err := os.WriteFile(dir, nil, 0o644); err != nil { // a file stands in the way
		t.Fatal(err)
	}
	if err := m.run(t.Context()); err == nil {
		t.Error("no error")
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := m.run(t.Context()); err != nil || len(names(t, dir)) != 12 {
		t.Errorf("%v, %v", names(t, dir), err)
	}
	// Of jobs that have left, no half month is made.
	h := time.Date(2026, 2, 10, 0, 0, 0, 0, y.conf.Location())
	_, _, sum, err := exported(t, y, h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := y.store.Purge(t.Context(), y.term, h, sum, "root"); err != nil {
		t.Fatal(err)
	}
	for _, name := range names(t, dir) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.run(t.Context()); err == nil || !strings.Contains(err.Error(), "2026-02: some of its jobs are archived") || strings.Contains(err.Error(), "2026-03") || !slices.Equal(names(t, dir)[:1], []string{"2026-03.csv"}) {
		t.Errorf("%v, %v", names(t, dir), err)
	}
}

func exported(t *testing.T, y *years, before time.Time) ([]byte, int64, string, error) {
	t.Helper()
	var b bytes.Buffer
	h, sum, err := y.store.Export(t.Context(), before, &b)
	return b.Bytes(), h.History, sum, err
}
