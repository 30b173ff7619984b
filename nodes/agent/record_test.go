package agent

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"fairslice/nodes"
	"fairslice/queue"
)

var update = flag.Bool("update", false, "write the golden files of this release")

func sampleRecord() *record {
	at := time.Date(2026, 3, 18, 2, 6, 7, 0, time.UTC)
	as := queue.Assignment{
		ID: queue.ElementID{Job: 1234, Index: 5}, Attempt: 2,
		Owner:  queue.Identity{User: "ada", UID: 1001, GID: 100, Groups: []int{100, 27}, Home: "/home/ada", Shell: "/bin/bash"},
		Spec:   &queue.Spec{Name: "train", Command: "python train.py", SubHost: "login1", SubCWD: "/home/ada/run", Stdout: "out.%J", Umask: 0o022, PostExec: "rm -rf tmp"},
		Script: []byte("#!/bin/bash\n#BSUB -n 2\npython train.py\n"), Env: [][]byte{[]byte("A=1"), []byte("B=\xff")},
		Alloc: []nodes.Allocation{{Node: "gpu01", Slots: 2, Memory: 4 << 30,
			Slices: []nodes.Slice{{UUID: "GPU-1", Amount: 50, Memory: 2 << 30, Mode: nodes.ModeCount}}}},
		RunLimit: time.Hour, MemoryLimit: 8 << 30, ImageFile: "/images/torch.sif", CWD: "/home/ada/run", Stdout: "/home/ada/run/out.1234",
		DisplayName: "train[5]", Queue: "normal", Cluster: "prod", Submitted: at, Report: true, Binds: []string{"/data:/data:ro"},
	}
	r := newRecord(as, "7c7f6d1e-boot")
	r.Stage, r.Pid, r.Began, r.Stdout, r.CWD, r.StdoutFrom = running, 4711, at.Add(time.Second), as.Stdout, as.CWD, 17
	r.StoppedFor, r.RunLimit = time.Minute, 2*time.Hour
	r.Killing, r.Detail = queue.TermOwner, "a word"
	return r
}

// The record files of each release stay in testdata and must open: a node is upgraded with its jobs running.
func TestRecordsOfEachReleaseOpen(t *testing.T) {
	const present = "testdata/spool/0.1.0"
	if *update {
		_ = os.RemoveAll(present)
		s, err := openSpool(present)
		if err != nil {
			t.Fatal(err)
		}
		r := sampleRecord()
		if err := s.create("1234.5.2", newRecord(r.Assignment, r.BootID)); err != nil {
			t.Fatal(err)
		}
		if err := s.update("1234.5.2", r); err != nil {
			t.Fatal(err)
		}
	}
	dirs, _ := filepath.Glob("testdata/spool/*")
	if len(dirs) == 0 {
		t.Fatal("no records")
	}
	for _, dir := range dirs {
		records, bad := (&spool{dir}).load()
		if len(bad) > 0 {
			t.Errorf("%s: %v", dir, bad)
		}
		if got, want := records["1234.5.2"], sampleRecord(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", dir, got, want)
		}
	}
}

func TestDamagedRecordsAreSetAside(t *testing.T) {
	s, err := openSpool(filepath.Join(t.TempDir(), "spool"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.create("1234.5.2", sampleRecord()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(s.path("1234.5.2"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(whole), "\n")
	for key, text := range map[string]string{
		"1.0.1": "{}\n{}\n",                  // of another attempt
		"2.0.1": "garbage\nmore\n",           // not JSON
		"3.0.1": first[:100],                 // torn
		"4.0.1": first + "\n",                // without progress
		"5.0.1": "",                          // killed before the write: no damage
		"6.0.1": strings.Repeat("\x00", 100), // after a power failure
	} {
		if err := os.WriteFile(s.path(key), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(s.path("1234.5.2"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"stage":"ended","bo`) // a torn line behind whole ones
		_ = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	records, bad := s.load()
	if len(records) != 1 || records["1234.5.2"] == nil || records["1234.5.2"].Stage != running {
		t.Errorf("%+v", records)
	}
	if len(bad) != 5 {
		t.Errorf("%q", bad)
	}
	if aside, _ := filepath.Glob(filepath.Join(s.dir, "*.damaged")); len(aside) != 5 {
		t.Errorf("set aside: %v", aside)
	}
	if again, bad := s.load(); len(bad) > 0 || len(again) != 1 {
		t.Errorf("the second time: %v %v", again, bad)
	}
}

func TestJobReport(t *testing.T) {
	at := time.Date(2026, 3, 18, 3, 6, 7, 0, time.UTC)
	var text strings.Builder
	for _, end := range []struct {
		status  int
		verdict queue.Verdict
	}{{0, ""}, {7 << 8, ""}, {15, queue.TermExternalSignal}, {9, queue.TermMemLimit}, {139, ""}, {queue.NoStatus, queue.TermUnknown}} {
		r := sampleRecord()
		r.Stderr = "/home/ada/run/err"
		text.Write(jobReport(r.Assignment, *r, queue.Report{Status: end.status, Verdict: end.verdict,
			Usage: queue.Usage{CPU: 1500 * time.Millisecond, MaxMemory: 100<<20 + 1, AvgMemory: 50 << 20, MaxProcs: 3, MaxThrds: 9}}, at))
	}
	const file = "testdata/report.txt"
	if *update {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("the reports differ from %s:\n%s", file, text.String())
	}
}
