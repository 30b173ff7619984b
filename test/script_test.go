package test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// inTurn runs the scripts one after the other: what they list is the whole cluster.
type inTurn struct{ *testing.T }

func (inTurn) Parallel()     {}
func (inTurn) Verbose() bool { return testing.Verbose() }
func (t inTurn) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { f(inTurn{t}) })
}

func TestScripts(t *testing.T) {
	c := running(t)
	testscript.RunT(inTurn{t}, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			if err := os.MkdirAll(home, 0o755); err != nil {
				return err
			}
			for d := e.WorkDir; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
				if err := os.Chmod(d, 0o755); err != nil {
					return err
				}
			}
			e.Vars = append(e.Vars, c.environment(home)...)
			e.Vars = append(e.Vars, "STATE="+c.dir)
			e.Values["ids"] = &ids{}
			e.Defer(func() {
				if err := c.quiet(); err != nil {
					t.Error(err)
				}
			})
			return c.quiet()
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"waitstate":  waitstate,
			"transcript": transcript,
		},
		Condition: func(cond string) (bool, error) { return cond == "root" && os.Geteuid() == 0, nil },
	})
}

// waitstate JOB STATE waits until the job is in the state; STATE may be several, as in DONE|EXIT.
func waitstate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitstate JOB STATE")
	}
	ts.Check(theCluster.c.waitState(args[0], args[1]))
}

// transcript FILE runs the commands of FILE, each by a shell in the current directory, and writes what they
// print to FILE.got in the form of FILE. The scripts compare the two by cmp, which knows -update.
//
//	$ command      run it; ends in \ to go on in the next line
//	output         its standard output, then its standard error after "! "
//	[exit 3]       when it was not 0
//	## words       a comment
//
// "restart batchd" kills it and waits until it answers again. In commands $J1, $J2 … are the jobs that the script has submitted, $J the last; "waitstate JOB STATE" and
// "waitfile FILE" are known too.
func transcript(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: transcript FILE")
	}
	known, _ := ts.Value("ids").(*ids)
	var got strings.Builder
	lines := strings.Split(ts.ReadFile(args[0]), "\n")
	for i := 0; i < len(lines); i++ {
		if strings.HasPrefix(lines[i], "##") {
			got.WriteString(lines[i] + "\n")
		}
		line, ok := strings.CutPrefix(lines[i], "$ ")
		if !ok {
			continue // what it printed last time
		}
		got.WriteString(lines[i] + "\n")
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			got.WriteString(lines[i] + "\n")
			line = strings.TrimSuffix(line, `\`) + lines[i]
		}
		got.WriteString(step(ts, known, line))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".got"), []byte(got.String()), 0o644))
}

func step(ts *testscript.TestScript, known *ids, line string) string {
	c := theCluster.c
	words := strings.Fields(os.Expand(line, func(name string) string {
		if v, ok := known.variable(name); ok {
			return v
		}
		return ts.Getenv(name)
	}))
	switch {
	case line == "restart batchd":
		ts.Check(c.killDaemon())
		_, errs, code := c.try("/", "lsid") // tries until it answers; what it says meanwhile is no matter
		if code != 0 {
			ts.Fatalf("batchd does not answer again: %s", errs)
		}
		return ""
	case len(words) == 3 && words[0] == "waitstate":
		ts.Check(c.waitState(strings.Trim(words[1], `'"`), words[2]))
		return ""
	case len(words) == 2 && words[0] == "waitfile":
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			if st, err := os.Stat(ts.MkAbs(words[1])); err == nil && st.Size() > 0 {
				return ""
			}
			if time.Now().After(deadline) {
				ts.Fatalf("there is no file %s", words[1])
			}
		}
	}
	cmd := shell(ts, line, known)
	out, errs, code := capture(cmd)
	known.learn(out)
	n := normaliser{c: c, work: ts.Getenv("WORK"), known: known, folded: folded.MatchString(line)}
	return n.block(out, "") + n.block(errs, "! ") + exitLine(code)
}
