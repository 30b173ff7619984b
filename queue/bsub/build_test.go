package bsub

import (
	"encoding/json"
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"time"

	"fairslice/queue"
)

const (
	mb = 1 << 20
	gb = 1 << 30
)

// input is a user's surroundings with one script on standard input and some files.
func input(stdin string, files map[string]string, env ...string) Input {
	return Input{
		Stdin: func() ([]byte, error) { return []byte(stdin), nil },
		ReadFile: func(path string) ([]byte, error) {
			if text, ok := files[path]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		},
		Environ: env, CWD: "/home/anna", Host: "login", Umask: 0o22,
		Now:      time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC),
		MaxArray: 75_000, Consumables: []string{"lic"}, Rows: 24, Cols: 80, Term: "xterm",
	}
}

// plain is a Spec of this user; each test says how its job differs.
func plain(change func(s *queue.Spec)) *queue.Spec {
	s := &queue.Spec{SubHost: "login", SubCWD: "/home/anna", Umask: 0o22}
	change(s)
	return s
}

// TestBuildOfClients holds what the clients of LSF really submit: arguments, the script on standard
// input, and the Spec that must come out.
func TestBuildOfClients(t *testing.T) {
	for _, tc := range []struct {
		who    string
		args   []string
		stdin  string
		files  map[string]string
		want   func(s *queue.Spec)
		script string
	}{
		{
			who: "Nextflow", stdin: "#!/bin/bash\n#BSUB -o /w/.command.log\n#BSUB -q long\n#BSUB -n 4\n#BSUB -R \"span[hosts=1]\"\n#BSUB -W 60:05\n#BSUB -M 8192MB\n#BSUB -R \"select[mem>=8192MB] rusage[mem=8192MB]\"\n#BSUB -J nf-align_1\nbash run\n",
			want: func(s *queue.Spec) {
				s.Name, s.Queue, s.Stdout, s.Command = "nf-align_1", "long", "/w/.command.log", "bash run"
				s.MinSlots, s.MaxSlots, s.RunLimit, s.Memory = 4, 4, 60*time.Hour+5*time.Minute, 8*gb
				s.ResReq = "span[hosts=1] select[mem>=8192MB] rusage[mem=8192MB]"
				s.Resources.OneHost, s.Resources.Memory = true, 8*gb
			},
		},
		{
			who: "Nextflow's array", stdin: "#!/bin/bash\n#BSUB -J \"nf-x[1-20]\"\n#BSUB -o /dev/null\ntrue\n",
			want: func(s *queue.Spec) {
				s.Name, s.Array, s.Stdout, s.Command = "nf-x", &queue.Array{Ranges: []queue.Range{{First: 1, Last: 20, Step: 1}}}, "/dev/null", "true"
			},
		},
		{
			who:  "Snakemake",
			args: []string{"-J", "Snakemake_a:x=1___(6f)", "-o", "l/a.log", "-e", "l/a.log", "-env", "all", "-P", "p", "-q", "normal", "-W", "10", "-n", "2", "-R", "rusage[mem=32.0]", "-R", "span[hosts=1]", "-cwd", "/w", `cd /w && python -m snakemake "x y"`},
			want: func(s *queue.Spec) {
				s.Name, s.Stdout, s.Stderr, s.Project, s.Queue, s.CWD = "Snakemake_a:x=1___(6f)", "l/a.log", "l/a.log", "p", "normal", "/w"
				s.RunLimit, s.MinSlots, s.MaxSlots, s.ResReq = 10*time.Minute, 2, 2, "rusage[mem=32.0] span[hosts=1]"
				s.Resources.Memory, s.Resources.OneHost = 32*mb, true
				s.Command = `cd /w && python -m snakemake "x y"`
			},
			script: "cd /w && python -m snakemake \"x y\"\n",
		},
		{
			who: "dask-jobqueue", stdin: "#!/usr/bin/env bash\n\n#BSUB -J dask-worker\n#BSUB -e d/dask-worker-%J.err\n#BSUB -o d/dask-worker-%J.out\n#BSUB -P \"Dask On LSF\"\n#BSUB -n 1\n#BSUB -M 2000000\n#BSUB -W 00:30\n#BSUB -u a@b\nJOB=1\npython -m distributed\n",
			want: func(s *queue.Spec) {
				s.Name, s.Stderr, s.Stdout, s.Project, s.MailUser = "dask-worker", "d/dask-worker-%J.err", "d/dask-worker-%J.out", "Dask On LSF", "a@b"
				s.MinSlots, s.MaxSlots, s.Memory, s.RunLimit, s.Command = 1, 1, 2000000*1024, 30*time.Minute, "JOB=1;python -m distributed"
			},
		},
		{
			who: "Parsl: a script file", args: []string{"parsl.sh"},
			files: map[string]string{"parsl.sh": "#!/bin/bash\n#BSUB -W 20\n#BSUB -J parsl.x.1.5\n#BSUB -nnodes 2\necho\n"},
			want: func(s *queue.Spec) {
				s.Name, s.RunLimit, s.MinSlots, s.MaxSlots, s.Exclusive = "parsl.x.1.5", 20*time.Minute, 2, 2, true
				s.ResReq, s.Resources.PerHost, s.Command = "span[ptile=1]", 1, "parsl.sh"
			},
			script: "#!/bin/bash\n#BSUB -W 20\n#BSUB -J parsl.x.1.5\n#BSUB -nnodes 2\necho\n",
		},
		{
			who:  "Toil",
			args: []string{"-cwd", ".", "-J", "toil_job_7", "-R", "select[mem>100MB] rusage[mem=100MB]", "-M", "100MB", "-n", "1", "-o", "/t/%J.out", "-e", "/t/%J.err", "_toil_worker x 'a b'"},
			want: func(s *queue.Spec) {
				s.CWD, s.Name, s.ResReq, s.Memory, s.MinSlots, s.MaxSlots = ".", "toil_job_7", "select[mem>100MB] rusage[mem=100MB]", 100*mb, 1, 1
				s.Resources.Memory, s.Stdout, s.Stderr, s.Command = 100*mb, "/t/%J.out", "/t/%J.err", "_toil_worker x 'a b'"
			},
		},
		{
			who: "Cromwell", args: []string{"-J", "c", "-cwd", "/c", "-o", "out", "-e", "err", "/usr/bin/env", "bash", "/c/script"},
			want: func(s *queue.Spec) {
				s.Name, s.CWD, s.Stdout, s.Stderr, s.Command = "c", "/c", "out", "err", "/usr/bin/env bash /c/script"
			},
			script: "/usr/bin/env bash /c/script\n",
		},
		{
			who: "psij", args: []string{"/abs/x.job"},
			files: map[string]string{"/abs/x.job": "#!/bin/bash\n#BSUB -J \"n\"\n#BSUB -cwd \"/d\"\n#BSUB -env none\n#BSUB -env A=1\n#BSUB -n 2\n#BSUB -M 4096KB\n#BSUB -W 1:30\n#BSUB -G \"acc\"\n#BSUB -e /dev/null\n#BSUB -o /dev/null\nx\n"},
			want: func(s *queue.Spec) {
				s.Name, s.CWD, s.MinSlots, s.MaxSlots, s.Memory, s.RunLimit = "n", "/d", 2, 2, 4*mb, 90*time.Minute
				s.Account, s.Stderr, s.Stdout, s.Command = "acc", "/dev/null", "/dev/null", "/abs/x.job"
			},
		},
		{
			who: "batchspawner", stdin: "#!/bin/sh\n#BSUB -R \"select[type==any]\"    # Allow spawning on any\n#BSUB -R \"span[hosts=1]\" # one host\n#BSUB -q q\n#BSUB -J spawner-jupyterhub\n#BSUB -o /h/.jupyterhub.lsf.out\nset -eu\n",
			want: func(s *queue.Spec) {
				s.ResReq, s.Resources.OneHost, s.Queue, s.Name, s.Stdout = "select[type==any] span[hosts=1]", true, "q", "spawner-jupyterhub", "/h/.jupyterhub.lsf.out"
				s.Command = "set -eu"
			},
		},
		{
			who: "radical.saga: a blank line above #!", args: []string{"/t/saga"},
			files: map[string]string{"/t/saga": "\n#!/bin/bash \n#BSUB -q normal \n#BSUB -alloc_flags 'gpumps smt1' \n/bin/x\n"},
			want:  func(s *queue.Spec) { s.Queue, s.Command = "normal", "/t/saga" }, script: "#!/bin/bash \n#BSUB -q normal \n#BSUB -alloc_flags 'gpumps smt1' \n/bin/x\n",
		},
		{
			who: "MATLAB", args: []string{"-J", "Job1[1-4]", "-o", "/l", "-env", "none", "-x", "-B", "-N", "cmd"},
			want: func(s *queue.Spec) {
				s.Name, s.Array = "Job1", &queue.Array{Ranges: []queue.Range{{First: 1, Last: 4, Step: 1}}}
				s.Stdout, s.Exclusive, s.NotifyB, s.NotifyN, s.Command = "/l", true, true, true, "cmd"
			},
		},
		{
			who: "AiiDA", stdin: "#!/bin/bash\n#BSUB -H\n#BSUB -rn\n#BSUB -m \"h1 h2!\"\n#BSUB -sp 10\n#BSUB -eo e.txt\n#BSUB -oo o.txt\nx\n",
			want: func(s *queue.Spec) {
				s.Hold, s.Priority, s.Stderr, s.Stdout, s.Overwrite, s.OverwriteE, s.Command = true, 10, "e.txt", "o.txt", true, true, "x"
				s.Hosts = []queue.HostWish{{Name: "h1"}, {Name: "h2", First: true}}
			},
		},
		{
			who: "blahp: not stdin of the job", args: []string{"-o", "/dev/null", "-e", "/dev/null", "-i", "/dev/null", "-L", "/bin/bash"}, stdin: "echo\n",
			want: func(s *queue.Spec) {
				s.Stdout, s.Stderr, s.Stdin, s.Shell, s.Command = "/dev/null", "/dev/null", "/dev/null", "/bin/bash", "echo"
			},
		},
		{
			who: "a Go program: attached values with quotes, options in one argument", args: []string{"-M20000", "-R'select[mem>20000] rusage[mem=20000]'", "-q normal -n 2", "x", "-n", "3"},
			want: func(s *queue.Spec) {
				s.Memory, s.ResReq, s.Resources.Memory = 20000*1024, "select[mem>20000] rusage[mem=20000]", 20000*mb
				s.Queue, s.MinSlots, s.MaxSlots, s.Command = "normal", 2, 2, "x -n 3"
			},
		},
		{
			who: "Ray", args: []string{"-Is", "-M", "20GB!", "-n", "2", "-R", "span[ptile=1]", "bash"},
			want: func(s *queue.Spec) {
				s.Interactive, s.Memory, s.MinSlots, s.MaxSlots, s.ResReq, s.Resources.PerHost = queue.PtyShell, 20*gb, 2, 2, "span[ptile=1]", 1
				s.Command, s.Rows, s.Cols, s.Term = "bash", 24, 80, "xterm"
			},
		},
		{
			who: "Arvados", args: []string{"-o", "/tmp/crunch-run.%J.out", "-J", "zzzzz-dz642", "-n", "4", "-D", "100MB", "-R", "rusage[mem=100MB] span[hosts=1]", "-R", "select[mem>=100MB]"}, stdin: "#!/bin/sh\nexec x\n",
			want: func(s *queue.Spec) {
				s.Stdout, s.Name, s.MinSlots, s.MaxSlots = "/tmp/crunch-run.%J.out", "zzzzz-dz642", 4, 4
				s.Limits, s.ResReq = map[string]int64{"D": 100 * mb}, "rusage[mem=100MB] span[hosts=1] select[mem>=100MB]"
				s.Resources.Memory, s.Resources.OneHost, s.Command = 100*mb, true, "exec x"
			},
		},
		{
			who: "ERT: a missing file is a command, and ends with 127", args: []string{"-J", "n", "missing.sh"},
			want: func(s *queue.Spec) { s.Name, s.Command = "n", "missing.sh" }, script: "missing.sh\n",
		},
	} {
		in := input(tc.stdin, tc.files)
		got, err := Build(tc.args, in)
		if err != nil {
			t.Errorf("%s: %v", tc.who, err)
			continue
		}
		want := plain(tc.want)
		want.Resources.Select, want.Resources.Order = got.Spec.Resources.Select, got.Spec.Resources.Order
		want.Resources.MemoryScope = got.Spec.Resources.MemoryScope
		if !reflect.DeepEqual(got.Spec, want) {
			t.Errorf("%s:\n got %s\nwant %s", tc.who, asJSON(got.Spec), asJSON(want))
		}
		if tc.script != "" && string(got.Script) != tc.script {
			t.Errorf("%s: script %q, want %q", tc.who, got.Script, tc.script)
		}
		again := *got.Spec
		if err := Apply(&again, got.Options, in); err != nil || !reflect.DeepEqual(&again, got.Spec) {
			t.Errorf("%s: applied twice: %v\n got %s\nwant %s", tc.who, err, asJSON(&again), asJSON(got.Spec))
		}
	}
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestBuildRefuses(t *testing.T) {
	for _, tc := range []struct {
		why   string
		args  []string
		stdin string
		want  string // what the error holds
	}{
		{"unknown option", []string{"-noheader", "x"}, "", `"-noheader": unknown option`},
		{"nothing to run", nil, "", "No command is specified. Job not submitted."},
		{"blank command", []string{"-q", "a", " "}, "", "No command is specified. Job not submitted."},
		{"blank script", nil, "\r\n \n", "No command is specified. Job not submitted."},
		{"only comments", nil, "#!/bin/sh\n#BSUB -J a\n", "Empty job. Job not submitted."},
		{"NUL in the script", nil, "a\x00b", "Line 1 of the script holds a NUL byte"},
		{"NUL in the command", []string{"a\x00b"}, "", "NUL byte"},
		{"-n 0", []string{"-n", "0", "x"}, "", "0: Bad processor count"},
		{"-n text", []string{"-n", "x", "x"}, "", "x"},
		{"-n overflow", []string{"-n", "99999999999999999999", "x"}, "", "99999999999999999999"},
		{"-W text", []string{"-W", "soon", "x"}, "", "soon"},
		{"-W overflow", []string{"-W", "99999999999999999999:00", "x"}, "", "year"},
		{"-M text", []string{"-M", "lots", "x"}, "", "lots"},
		{"-M overflow", []string{"-M", "99999999999E", "x"}, "", "99999999999E"},
		{"-R open", []string{"-R", "select[mem>", "x"}, "", ""},
		{"-R unknown section", []string{"-R", "wish[x]", "x"}, "", ""},
		{"-R duplicate section", []string{"-R", "span[hosts=1] span[ptile=1]", "x"}, "", "duplicate section"},
		{"-R unknown resource", []string{"-R", "rusage[unicorns=1]", "x"}, "", "Error in rusage section"},
		{"-gpu text", []string{"-gpu", "nonsense", "x"}, "", "nonsense"},
		{"-gpu overflow", []string{"-gpu", "fgpu=99999999999999999999", "x"}, "", ""},
		{"-J open list", []string{"-J", "a[1-", "x"}, "", "Job array index error"},
		{"-J too large", []string{"-J", "a[1-75001]", "x"}, "", "Job array index too large"},
		{"-J with a newline", []string{"-J", "a\nb", "x"}, "", "control character"},
		{"-J that leads out of a folder", []string{"-J", "../x", "x"}, "", "Bad job name"},
		{"-q that leads out of a folder", []string{"-q", "../x", "x"}, "", "Bad queue name"},
		{"two mistakes that only show together", []string{"-b", "+2:00", "-t", "+1:00", "-gpu", "fgpu=1", "-R", "rusage[fgpu=2]", "x"}, "", "before -b lets it start"},
		{"-w", []string{"-w", "done(", "x"}, "", "Dependency condition syntax error"},
		{"-b", []string{"-b", "25:00", "x"}, "", "Bad time specification"},
		{"-m", []string{"-m", "../x", "x"}, "", "Bad host name"},
		{"-sp", []string{"-sp", "0", "x"}, "", "-sp"},
		{"-L", []string{"-L", "bash", "x"}, "", "absolute path"},
		{"an empty value", []string{"-q", "", "x"}, "", "the value is empty"},
		{"a value that is not UTF-8", []string{"-o", "\xff", "x"}, "", "not UTF-8"},
		{"-K with -I", []string{"-K", "-Is", "x"}, "", "cannot be used together"},
		{"-n with -nnodes", []string{"-n", "2", "-nnodes", "2", "x"}, "", "cannot be used together"},
		{"the same in the script", nil, "#BSUB -n 2\n#BSUB -nnodes 2\nx", "In the script: Options -n and -nnodes"},
		{"a session that is an array", []string{"-Is", "-J", "a[1-3]", "x"}, "", "Interactive job arrays are not supported"},
		{"not supported", []string{"-g", "/a/b", "x"}, "", "Option -g is not supported"},
		{"an unknown option in the script", nil, "x\n#BSUB -zz 1\n", `Line 2 of the script: "-zz": unknown option`},
		{"an open quote in the script", nil, "x\n#BSUB -J 'a\n", "not closed"},
		{"help in the script", nil, "x\n#BSUB -h\n", "no place in a script"},
	} {
		got, err := Build(tc.args, input(tc.stdin, nil))
		if err == nil {
			t.Errorf("%s: accepted as %s", tc.why, asJSON(got.Spec))
			continue
		}
		if text := err.Error(); !strings.Contains(text, tc.want) || !strings.HasSuffix(text, ". Job not submitted.") || strings.HasSuffix(text, ".. Job not submitted.") {
			t.Errorf("%s: %s", tc.why, text)
		}
	}
}

func TestStdinErrorIsReported(t *testing.T) {
	in := input("", nil)
	in.Stdin = func() ([]byte, error) { return nil, errors.New("broken pipe") }
	if _, err := Build(nil, in); err == nil || !strings.Contains(err.Error(), "broken pipe") {
		t.Error(err)
	}
}

func TestScriptsOfAllKinds(t *testing.T) {
	large := strings.Repeat("echo 0123456789\n", 10<<20/16)
	for _, tc := range []struct {
		why, stdin, command, script, shell string
	}{
		{"without #! it is for /bin/sh", "echo a\n\n# no\n  echo b\n", "echo a;echo b", "echo a\n\n# no\n  echo b\n", "/bin/sh"},
		{"with #! it says itself", "#!/usr/bin/python3\nprint(1)\n", "print(1)", "#!/usr/bin/python3\nprint(1)\n", ""},
		{"CRLF", "#!/bin/sh\r\n#BSUB -q a\r\necho a\r\n", "echo a", "#!/bin/sh\n#BSUB -q a\necho a\n", ""},
		{"Latin-1", "#!/bin/sh\necho \xe4\n", "echo ?", "#!/bin/sh\necho \xe4\n", ""},
		{"10 MB", large, strings.Repeat("echo 0123456789;", 32), large, "/bin/sh"},
		{"a long line is cut between characters", "echo " + strings.Repeat("é", 300), "echo " + strings.Repeat("é", 253), "echo " + strings.Repeat("é", 300), "/bin/sh"},
	} {
		got, err := Build(nil, input(tc.stdin, nil))
		if err != nil {
			t.Errorf("%s: %v", tc.why, err)
			continue
		}
		if got.Spec.Command != tc.command || string(got.Script) != tc.script || got.Spec.Shell != tc.shell {
			t.Errorf("%s: %.60q %.60q %q", tc.why, got.Spec.Command, got.Script, got.Spec.Shell)
		}
	}
}

func TestScriptFiles(t *testing.T) {
	files := map[string]string{
		"plain.sh": "#!/bin/sh\necho\n", "job.sh": "#!/bin/bash -l\n#BSUB -q a\necho $1\n", "bare": "#BSUB -q a\necho $1\n",
		"job.py": "#!/usr/bin/env python3\n#BSUB -q a\nprint()\n", "prog": "\x7fELF\x00#BSUB -q a\n", "open": "#BSUB -J 'a\nx\n",
	}
	for _, tc := range []struct {
		why    string
		args   []string
		env    []string
		queue  string
		script string // or the error
	}{
		{"a script without #BSUB runs where it is", []string{"plain.sh"}, nil, "", "plain.sh\n"},
		{"a program runs where it is", []string{"prog"}, nil, "", "prog\n"},
		{"a script with #BSUB is read and kept", []string{"job.sh"}, nil, "a", files["job.sh"]},
		{"its arguments go with it", []string{"job.sh", "x y", "it's"}, nil, "a", "#!/bin/bash -l\nset -- 'x y' 'it'\\''s'\n#BSUB -q a\necho $1\n"},
		{"also without #!", []string{"bare", "x"}, nil, "a", "set -- 'x'\n#BSUB -q a\necho $1\n"},
		{"another interpreter gets them from the file itself", []string{"job.py", "x"}, nil, "a", "job.py x\n"},
		{"not read where the user says so", []string{"job.sh"}, []string{"LSB_BSUB_PARSE_SCRIPT=N"}, "", "job.sh\n"},
		{"the command line wins", []string{"-q", "b", "job.sh"}, nil, "b", files["job.sh"]},
		{"an open quote is reported", []string{"open"}, nil, "", "line 1: #BSUB with a quote (') that is not closed. Job not submitted."},
	} {
		got, err := Build(tc.args, input("never read", files, tc.env...))
		if err != nil {
			if err.Error() != tc.script {
				t.Errorf("%s: %v", tc.why, err)
			}
			continue
		}
		if got.Spec.Queue != tc.queue || string(got.Script) != tc.script || got.Spec.Command != strings.TrimPrefix(strings.Join(tc.args, " "), "-q b ") {
			t.Errorf("%s: %q %q %q", tc.why, got.Spec.Queue, got.Script, got.Spec.Command)
		}
	}
}

func TestWhatWins(t *testing.T) {
	script := "#BSUB -q one\n#BSUB -q two\n#BSUB -oo s.out\n#BSUB -K\n#BSUB -R \"select[mem>1]\"\n#BSUB -n 4\n#BSUB -J \"a[1-5]\"\n#BSUB -x stray\nrun\n"
	for _, tc := range []struct {
		why  string
		args []string
		env  []string
		ok   func(s *Submission) bool
	}{
		{"the last of the script", nil, nil, func(s *Submission) bool { return s.Spec.Queue == "two" && s.Spec.Overwrite }},
		{"the command line", []string{"-q", "three"}, nil, func(s *Submission) bool { return s.Spec.Queue == "three" }},
		{"the script beats the environment", nil, []string{"LSB_DEFAULTQUEUE=e"}, func(s *Submission) bool { return s.Spec.Queue == "two" && !s.DefaultQueue }},
		{"-o replaces -oo", []string{"-o", "c.out"}, nil, func(s *Submission) bool { return s.Spec.Stdout == "c.out" && !s.Spec.Overwrite }},
		{"names may hold nearly anything", []string{"-J", `it's "a" $(b) é ^`, "-o", "../out (1)/%J"}, nil, func(s *Submission) bool {
			return s.Spec.Name == `it's "a" $(b) é ^` && s.Spec.Stdout == "../out (1)/%J"
		}},
		{"-nnodes is not spread otherwise by -R", []string{"-nnodes", "2", "-R", "span[hosts=1]"}, nil, func(s *Submission) bool {
			return s.Spec.Resources.PerHost == 1 && !s.Spec.Resources.OneHost
		}},
		{"notes of -gpu reach the user once", []string{"-gpu", "num=1:aff=yes", "-J", "b"}, nil, func(s *Submission) bool {
			return len(s.Notes) == 2 && s.Spec.GPURequest.Num == 1
		}},
		{"-I replaces -K", []string{"-I", "-J", "b"}, nil, func(s *Submission) bool { return s.Spec.Interactive == queue.Pipes }},
		{"-nnodes replaces -n", []string{"-nnodes", "2"}, nil, func(s *Submission) bool { return s.Spec.MinSlots == 2 && s.Spec.Exclusive }},
		{"an empty project is none", []string{"-P", ""}, []string{"LSB_DEFAULTPROJECT=e"}, func(s *Submission) bool { return s.Spec.Project == "" }},
		{"a name replaces an array", []string{"-J", "b"}, nil, func(s *Submission) bool { return s.Spec.Name == "b" && s.Spec.Array == nil }},
		{"-R adds up", []string{"-R", "span[hosts=1]"}, nil, func(s *Submission) bool {
			return s.Spec.ResReq == "select[mem>1] span[hosts=1]" && s.Spec.Resources.OneHost && s.Spec.Resources.Select != ""
		}},
		{"a stray word is noted", nil, nil, func(s *Submission) bool {
			return s.Spec.Exclusive && len(s.Notes) == 1 && strings.Contains(s.Notes[0], `line 8 of the script: "stray" is not an option`)
		}},
	} {
		got, err := Build(tc.args, input(script, nil, tc.env...))
		if err != nil || !tc.ok(got) {
			t.Errorf("%s: %v %s", tc.why, err, asJSON(got))
		}
	}
}
