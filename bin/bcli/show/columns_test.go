package show

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"fairslice/api/pb"
)

func formatted(t *testing.T, format string, st *Style, jobs ...*pb.Job) string {
	t.Helper()
	f, err := ParseFormat(JobFields, format)
	if err != nil {
		t.Fatal(err)
	}
	b := f.Header(nil)
	for _, j := range jobs {
		b = f.Row(b, j, st)
	}
	return string(b)
}

func killedForMemory() *pb.Job {
	j := running()
	j.Id, j.State, j.HasResult, j.Status, j.ExitCode = 101, "EXIT", true, 9, 137
	j.Verdict, j.VerdictText = "TERM_MEMLIMIT", "job killed after reaching LSF memory usage limit"
	j.Ended = at(3, 18, 2, 9)
	return j
}

func TestFormatSamples(t *testing.T) {
	j := running()
	j.Id, j.Alloc = 101, j.Alloc[:1]
	p := waiting()
	p.Id = 102
	same(t, formatted(t, "jobid stat exec_host delimiter='^'", style(), j, p), "JOBID^STAT^EXEC_HOST\n101^RUN^gpu01\n102^PEND^-\n")
	same(t, formatted(t, "jobid:7 stat:5 exit_code:10 exit_reason:50 delimiter='|'", style(), killedForMemory()),
		`JOBID  |STAT |EXIT_CODE |EXIT_REASON                                       
101    |EXIT |137       |TERM_MEMLIMIT: job killed after reaching LSF memor
`)
	same(t, formatted(t, "id:-6 NAME:6 stat: max_mem::M stat", style(), p), " JOBID JOB_NA STAT  MAX_MEM    STAT\n   102 *g_run PEND  -          PEND\n")
}

func TestFormatValues(t *testing.T) {
	j := running()
	j.RunLimit = int64(20 * time.Minute)
	j.Usage = &pb.Usage{Cpu: int64(34 * time.Second), Memory: 9 << 20, MaxMemory: 52 << 30 / 10}
	j.Alloc[0].Slices = []*pb.Slice{{Index: 0}, {Index: 1}}
	j.Fgpu = 50
	done := killedForMemory()
	done.State, done.Status, done.ExitCode, done.Verdict = "DONE", 0, 0, ""
	long := style()
	long.HMS = true
	year := style()
	year.Year = true
	for _, c := range []struct {
		job   *pb.Job
		st    *Style
		field string
		want  string
	}{
		{j, style(), "mem", "9 Mbytes"}, {j, style(), "max_mem", "5.2 Gbytes"}, {j, style(), "run_time", "180 second(s)"},
		{j, long, "run_time", "00:03:00"}, {j, style(), "cpu_used", "34.0 second(s)"}, {j, style(), "runtimelimit", "20.0"},
		{j, style(), "%complete", " 15.00% L"}, {j, style(), "finish_time", "Mar 18 02:27 L"}, {j, style(), "time_left", "0:17 L"},
		{j, style(), "start_time", "Mar 18 02:07"}, {j, year, "start_time", "Mar 18 02:07:00 2026"}, {j, style(), "gpu_alloc", "gpu01{0,1}"},
		{j, style(), "gpu_num", "2"}, {j, style(), "exit_code", "-"}, {j, style(), "exit_reason", "-"}, {j, style(), "fgpu", "0.5"},
		{done, style(), "exit_code", "-"}, {done, style(), "finish_time", "Mar 18 02:09"}, {killedForMemory(), style(), "exit_code", "137"},
		{waiting(), style(), "pend_reason", NewReason}, {waiting(), style(), "start_time", "-"}, {waiting(), style(), "finish_time", "-"},
		{waiting(), style(), "exec_host", "-"}, {waiting(), style(), "runtimelimit", "-"}, {waiting(), style(), "run_time", "0 second(s)"},
		{j, style(), "exec_host", "gpu01:gpu02"}, {j, style(), "nalloc_slot", "2"}, {j, style(), "jobindex", "0"},
	} {
		_, got, _ := strings.Cut(formatted(t, c.field, c.st, c.job), "\n")
		if got = strings.TrimSuffix(got, "\n"); got != c.want {
			t.Errorf("%s of %d: %q, want %q", c.field, c.job.Id, got, c.want)
		}
	}
}

func TestFormatRefuses(t *testing.T) {
	for format, want := range map[string]string{
		"jobid nosuch":           "known fields: jobid jobindex stat",
		"":                       "names no field",
		"delimiter='|'":          "names no field",
		"jobid delimiter=''":     "exactly one character",
		"jobid delimiter='ab'":   "exactly one character",
		"jobid delimiter='a":     "exactly one character",
		"jobid delimiter=\"\n\"": "exactly one character",
		"jobid:0":                "a width is",
		"jobid:x":                "a width is",
		"jobid:5:G":              "takes no unit",
		"mem:5:Q":                "a unit is",
		"jobid:5:G:7":            "field:width:unit",
	} {
		if _, err := ParseFormat(JobFields, format); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", format, err, want)
		}
	}
}

func TestFieldNamesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range JobFields {
		for _, n := range append([]string{f.Name}, f.Aliases...) {
			if seen[n] || n != strings.ToLower(n) || f.Width == 0 {
				t.Errorf("field name %q", n)
			}
			seen[n] = true
		}
	}
}

func TestJSONSample(t *testing.T) {
	f, err := ParseFormat(JobFields, "jobid stat exit_code exit_reason stat")
	if err != nil {
		t.Fatal(err)
	}
	j := killedForMemory()
	j.Id = 22005
	d := NewJSON("bjobs", "JOBS")
	f.Record(d, j, style())
	d.Error("Job <99> is not found")
	same(t, string(d.End(nil)), `{
  "COMMAND":"bjobs",
  "JOBS":2,
  "RECORDS":[
    {
      "JOBID":"22005",
      "STAT":"EXIT",
      "EXIT_CODE":"137",
      "EXIT_REASON":"TERM_MEMLIMIT: job killed after reaching LSF memory usage limit"
    },
    {
      "ERROR":"Job <99> is not found"
    }
  ]
}
`)
	if d.Real() != 1 {
		t.Error(d.Real())
	}
	same(t, string(NewJSON("bjobs", "JOBS").End(nil)), "{\n  \"COMMAND\":\"bjobs\",\n  \"JOBS\":0,\n  \"RECORDS\":[]\n}\n")
}

// decode checks that b is a document of the frame, and gives its records.
func decode(t *testing.T, b []byte) []map[string]any {
	t.Helper()
	var doc struct {
		Command string           `json:"COMMAND"`
		Records []map[string]any `json:"RECORDS"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatalf("%v in\n%s", err, b)
	}
	return doc.Records
}

func TestJSONOfNastyNames(t *testing.T) {
	f, err := ParseFormat(JobFields, "all")
	if err != nil {
		t.Fatal(err)
	}
	d := NewJSON("bjobs", "JOBS")
	for _, s := range nasty {
		j := running()
		j.Spec.Name, j.Spec.Command, j.Spec.Description = "x"+s, s, s
		f.Record(d, j, style())
	}
	records := decode(t, d.End(nil))
	for i, s := range nasty {
		want := strings.ToValidUTF8("x"+s, "\ufffd")
		if s == "\xff\xfe" {
			want = "x\ufffd\ufffd"
		}
		if got := records[i]["JOB_NAME"]; got != want {
			t.Errorf("%q came out as %q", s, got)
		}
		for k, v := range records[i] {
			if _, ok := v.(string); !ok {
				t.Errorf("%s is no string", k)
			}
		}
	}
}

func TestOwnDocumentsAreValid(t *testing.T) {
	d := NewJSON("bslice", "GPUS")
	SlicesRecord(d, gpuHost(), style())
	r := decode(t, d.End(nil))
	if r[0]["FGPU_USED"] != 0.5 || r[0]["SLICES"].([]any)[0].(map[string]any)["SM_PERCENT"] != 25.0 || len(r[1]["SLICES"].([]any)) != 0 {
		t.Error(r)
	}
	d = NewJSON("bwhy", "JOBS")
	j := waiting()
	j.Reasons = []*pb.Reason{{Kind: "gpu", Text: "x\n", Nodes: []string{"a", "b"}}, {Kind: "held", Text: "y"}}
	WhyRecord(d, &pb.WhyJob{Job: j, Ahead: 1}, style())
	WhyRecord(d, &pb.WhyJob{Job: waiting()}, style())
	r = decode(t, d.End(nil))
	if len(r) != 2 || len(r[0]["REASONS"].([]any)) != 2 || r[0]["AHEAD"] != 1.0 {
		t.Error(r)
	}
	d = NewJSON("bjobs", "JOBS")
	ArrayRecord(d, waiting(), style())
	new(Sum).Record(d)
	decode(t, d.End(nil))
}

// FuzzParseFormat: no format panics, and a row of an accepted one is one line.
func FuzzParseFormat(f *testing.F) {
	for _, s := range []string{"jobid stat", "jobid: user:10 stat: queue:", "all delimiter='|'", "mem:10:G name:-5", "delimiter=\"'\" id", "%complete:3", "job_name:1", "stat:\n", "id delimiter=\xff"} {
		f.Add(s, "name")
	}
	for _, s := range nasty {
		f.Add("job_name:4 command:-3 name", s)
	}
	f.Fuzz(func(t *testing.T, format, name string) {
		parsed, err := ParseFormat(JobFields, format)
		if err != nil {
			if !utf8.ValidString(err.Error()) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("the error for %q is %q", format, err)
			}
			return
		}
		if len(parsed.Columns) > 50 {
			return
		}
		j := running()
		j.Spec.Name, j.Spec.Command = name, name
		for _, b := range [][]byte{parsed.Header(nil), parsed.Row(nil, j, style())} {
			if strings.Count(string(b), "\n") != 1 || !utf8.Valid(b) {
				t.Fatalf("%q of %q gives %q", format, name, b)
			}
		}
		d := NewJSON("bjobs", "JOBS")
		parsed.Record(d, j, style())
		decode(t, d.End(nil))
	})
}
