package apptainer

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestCommand(t *testing.T) {
	base := Options{Binary: "/bin/apptainer", Image: "/i.sif", Enter: "/e", StartFile: "/s"}
	enter := []string{"--mount", `"type=bind","source=/e","destination=/.fairslice/enter","ro"`,
		"--mount", `"type=bind","source=/s","destination=/.fairslice/start","ro"`}
	head := []string{"/bin/apptainer", "--silent", "exec", "--cleanenv", "--no-eval", "--no-home"}
	join := func(parts ...[]string) []string { return slices.Concat(parts...) }
	tail := []string{"/i.sif", "/.fairslice/enter"}

	for _, c := range []struct {
		name   string
		change func(*Options)
		want   []string
	}{
		{"the least", func(*Options) {}, join(head, []string{"--pwd", "/"}, enter, tail)},
		{"contained, with GPU, scratch and more options", func(o *Options) {
			o.Contain, o.GPU, o.Scratch, o.Extra = true, true, "/scratch", []string{"--overlay", "/o"}
		}, join(head, []string{"--contain", "--nv", "--workdir", "/scratch", "--pwd", "/"}, enter, []string{"--overlay", "/o"}, tail)},
		{"the job's directory is elsewhere there, and comes after what it may lie in", func(o *Options) { o.Workdir, o.JobDir = "/w", "/w/run/jobs/1" },
			join(head, []string{"--pwd", "/w", "--mount", `"type=bind","source=/w","destination=/w"`,
				"--mount", `"type=bind","source=/w/run/jobs/1","destination=/.fairslice/job"`}, enter, tail)},
		{"what the job changes of its image", func(o *Options) { o.Overlay, o.Fakeroot = "/o.img", true },
			join(head, []string{"--overlay", "/o.img", "--fakeroot", "--ignore-fakeroot-command", "--pwd", "/"}, enter, tail)},
		{"a working directory inside the home is bound with it", func(o *Options) { o.Home, o.Workdir = "/home/a", "/home/a/w" },
			join(head, []string{"--pwd", "/home/a/w", "--mount", `"type=bind","source=/home/a","destination=/home/a"`}, enter, tail)},
		{"one beside the home is bound by itself", func(o *Options) { o.Home, o.Workdir = "/home/a", "/home/ab" },
			join(head, []string{"--pwd", "/home/ab", "--mount", `"type=bind","source=/home/a","destination=/home/a"`,
				"--mount", `"type=bind","source=/home/ab","destination=/home/ab"`}, enter, tail)},
		{"paths with commas, colons and quotes", func(o *Options) { o.Binds = []Bind{{`/a,b:"c"`, "/d", true}} },
			join(head, []string{"--pwd", "/", "--mount", `"type=bind","source=/a,b:""c""","destination=/d","ro"`}, enter, tail)},
	} {
		o := base
		c.change(&o)
		argv, env, err := Command(o)
		if err != nil || !reflect.DeepEqual(argv, c.want) {
			t.Errorf("%s:\n got %q, %v\nwant %q", c.name, argv, err, c.want)
		}
		for _, e := range env {
			if strings.HasPrefix(e, "APPTAINER") || strings.HasPrefix(e, "SINGULARITY") {
				t.Errorf("%s: Apptainer gets %q", c.name, e)
			}
		}
	}
}

func TestCommandRefuses(t *testing.T) {
	_, _, err := Command(Options{Image: "library://alpine", Binds: []Bind{{Source: "relative"}, {Source: "/a\nb"}}})
	for _, want := range []string{"Binary", "library://alpine", "Enter", "StartFile", "relative", "line break"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
}

func TestEnvironmentMerge(t *testing.T) {
	image := []string{"PATH=/opt/bin", "A=image", "LD_LIBRARY_PATH=/.singularity.d/libs"}
	for _, c := range []struct {
		name string
		s    Start
		want []string
	}{
		{"only the job's", Start{Env: []string{"A=1"}}, []string{"A=1"}},
		{"the job's wins over the image's", Start{Env: []string{"A=1"}, ImageEnv: true}, []string{"PATH=/opt/bin", "LD_LIBRARY_PATH=/.singularity.d/libs", "A=1"}},
		{"a GPU needs the driver's libraries", Start{Env: []string{"A=1"}, GPU: true}, []string{"A=1", "LD_LIBRARY_PATH=/.singularity.d/libs"}},
		{"after the job's own", Start{Env: []string{"LD_LIBRARY_PATH=/x:"}, GPU: true}, []string{"LD_LIBRARY_PATH=/x:/.singularity.d/libs"}},
		{"also where its own are none", Start{Env: []string{"LD_LIBRARY_PATH="}, GPU: true}, []string{"LD_LIBRARY_PATH=/.singularity.d/libs"}},
		{"once is enough", Start{ImageEnv: true, GPU: true}, image},
	} {
		if got := c.s.environment(image); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWriteStartRefuses(t *testing.T) {
	for _, c := range []struct {
		s    Start
		says string
	}{
		{Start{}, "no command"},
		{Start{Args: []string{"a\x00b"}}, "zero byte"},
		{Start{Args: []string{"a"}, Env: []string{"NOVALUE"}}, "not NAME=value"},
		{Start{Args: []string{"a"}, Env: []string{"=x"}}, "not NAME=value"},
		{Start{Args: []string{"a"}, Env: []string{"BIG=" + strings.Repeat("x", maxString-4)}}, "one argument or variable can have 131071"},
	} {
		if err := WriteStart(filepath.Join(t.TempDir(), "start"), c.s); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.60q: %v; want %q", c.s.Env, err, c.says)
		}
	}
}

func FuzzStart(f *testing.F) {
	f.Add("sh", "-c", "A=\n", "/dir", true, 3)
	f.Fuzz(func(t *testing.T, command, arg, variable, dir string, flag bool, fd int) {
		in := Start{Args: []string{command, arg}, Env: []string{variable}, Dir: dir, ImageEnv: flag, GPU: !flag, StartedFD: fd}
		if flag {
			in.Beside = []string{arg, dir}
		}
		b, err := in.encode()
		if err != nil {
			return
		}
		if out, err := decodeStart(b); err != nil || !reflect.DeepEqual(in, out) {
			t.Fatalf("%v became %v, %v", in, out, err)
		}
		for i := range len(b) { // a file cut off anywhere must not be taken for a whole one
			if out, err := decodeStart(b[:i]); err == nil {
				t.Fatalf("cut at %d: %v", i, out)
			}
		}
	})
}

func TestParseStarted(t *testing.T) {
	for _, c := range []struct {
		written string
		started bool
		reason  string
	}{
		{"", false, ""},
		{"started\n", true, ""},
		{"no such file\n", false, "no such file"},
		{"started\nrun /bin/x: exec format error\n", false, "run /bin/x: exec format error"},
	} {
		if started, reason := ParseStarted(c.written); started != c.started || reason != c.reason {
			t.Errorf("ParseStarted(%q) = %v, %q", c.written, started, reason)
		}
	}
}
