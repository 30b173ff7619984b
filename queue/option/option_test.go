package option

import (
	"reflect"
	"strings"
	"testing"
)

func flag(names ...string) []Option {
	var out []Option
	for _, n := range names {
		out = append(out, Option{Name: n})
	}
	return out
}

func valued(names ...string) []Option {
	var out []Option
	for _, n := range names {
		out = append(out, Option{Name: n, Value: Required})
	}
	return out
}

func table(name string, lists ...[]Option) *Command {
	c := &Command{Name: name}
	for _, l := range lists {
		c.Options = append(c.Options, l...)
	}
	return c
}

var (
	numbers = []Option{{Name: "n", Value: Required, Number: true}, {Name: "W", Value: Required, Number: true}, {Name: "M", Value: Required, Number: true}, {Name: "nnodes", Value: Required, Number: true}}

	testBsub = func() *Command {
		c := table("bsub", flag("H", "r", "rn", "B", "N", "x", "I", "Is", "Ip", "K"), valued("J", "o", "e", "oo", "eo", "q", "R", "P", "G", "cwd", "env", "u", "L", "gpu", "w", "i", "f", "E", "Ep"), numbers)
		c.StopAtOperand = true
		return c
	}()
	testBjobs = table("bjobs", flag("a", "A", "l", "w", "UF", "noheader", "json", "r", "p", "d", "s", "X", "hms", "aff", "gpu", "sum"), valued("o", "u", "q", "m", "J", "Jd", "P", "G", "app", "g", "sla"))
	testBkill = table("bkill", flag("d", "b", "r", "l"), valued("s", "C", "J", "u", "q", "m"))
	testBhist = table("bhist", flag("a", "l", "UF"), []Option{{Name: "n", Value: Required, Number: true}}, valued("o", "u", "N", "C"))
	testBacct = table("bacct", flag("l", "gpu", "UF"), valued("u", "C"))
)

// show prints a parsed line as "q=normal n=2 x | a b".
func show(p *Parsed) string {
	var words []string
	for _, g := range p.Given {
		if g.Value != "" {
			words = append(words, g.Name+"="+g.Value)
		} else {
			words = append(words, g.Name)
		}
	}
	if len(p.Operands) > 0 {
		words = append(words, "|")
		words = append(words, p.Operands...)
	}
	return strings.Join(words, " ")
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		why     string
		command *Command
		args    []string
		want    string // or the beginning of the error after "!"
	}{
		// Command lines that clients really run.
		{"Nextflow polls", testBjobs, []string{"-w"}, "w"},
		{"Nextflow polls a queue", testBjobs, []string{"-w", "-q", "normal"}, "w q=normal"},
		{"Snakemake: bundled flags, pattern", testBjobs, []string{"-noheader", "-o", "jobid stat", "-aJ", "*uuid*"}, "noheader o=jobid stat a J=*uuid*"},
		{"Snakemake profile", testBjobs, []string{"-o", "stat", "-noheader", "17"}, "o=stat noheader | 17"},
		{"Parsl", testBjobs, []string{"-noheader", "-o", "jobid stat", "1", "2"}, "noheader o=jobid stat | 1 2"},
		{"Toil", testBjobs, []string{"-json", "-o", "jobid user exit_code stat exit_reason pend_reason", "5"}, "json o=jobid user exit_code stat exit_reason pend_reason | 5"},
		{"Toil: delimiter in quotes", testBjobs, []string{"-o", "jobid stat start_time delimiter='|'"}, "o=jobid stat start_time delimiter='|'"},
		{"psij", testBjobs, []string{"-o", "JOBID STAT EXIT_REASON", "-json", "-a", "7", "8"}, "o=JOBID STAT EXIT_REASON json a | 7 8"},
		{"batchspawner", testBjobs, []string{"-a", "-noheader", "-o", "STAT EXEC_HOST", "9"}, "a noheader o=STAT EXEC_HOST | 9"},
		{"ERT: option and value in one argument", testBjobs, []string{"-noheader", "-o exit_code", "9"}, "noheader o=exit_code | 9"},
		{"ERT: attached number", testBhist, []string{"-l", "-n2", "9"}, "l n=2 | 9"},
		{"AiiDA: attached user", testBjobs, []string{"-noheader", "-o", `id stat delimiter="|"`, "-uanna", "3"}, `noheader o=id stat delimiter="|" u=anna | 3`},
		{"buildtest: options after the id", testBjobs, []string{"-o", "job_name", "33", "-json"}, "o=job_name json | 33"},
		{"Maestro", testBjobs, []string{"-a", "-u", "anna", "-o", "jobid:7 stat:5 delimiter='|'"}, "a u=anna o=jobid:7 stat:5 delimiter='|'"},
		{"BatchEuphoria", testBjobs, []string{"-a", "-hms", "-json", "-o", "jobid"}, "a hms json o=jobid"},
		{"better-bjobs", testBjobs, []string{"-Jd", "P", "-a", "-json"}, "Jd=P a json"},
		{"batchtools", testBjobs, []string{"-u", "anna", "-w", "-p"}, "u=anna w p"},
		{"canu", testBjobs, []string{"-A", "-J", "name"}, "A J=name"},
		{"Nextflow kills", testBkill, []string{"-d", "12", "13[1]"}, "d | 12 13[1]"},
		{"ERT kills", testBkill, []string{"-s", "SIGTERM", "12", "13"}, "s=SIGTERM | 12 13"},
		{"wr kills", testBkill, []string{"-b", "12[1]", "12[2]"}, "b | 12[1] 12[2]"},
		{"Airflow kills with a text", testBkill, []string{"-C", "it was stuck", "12"}, "C=it was stuck | 12"},
		{"CEEMS", testBacct, []string{"-u", "all", "-l", "-gpu", "-UF", "-C", "1,2"}, "u=all l gpu UF C=1,2"},
		{"Snakemake's project guess", testBhist, []string{"-l", "-a"}, "l a"},
		{"bsub stops at the command", testBsub, []string{"-q", "q", "prog", "-n", "4"}, "q=q | prog -n 4"},
		{"a Go program: attached, with quotes left in", testBsub, []string{"-M20000", "-R'select[mem>20000] rusage[mem=20000]'", "x"}, "M=20000 R=select[mem>20000] rusage[mem=20000] | x"},
		{"a Go program: options in one argument", testBsub, []string{"-o", "f", "-e", "f", "-q normal -n 2", "script"}, "o=f e=f q=normal n=2 | script"},
		{"repeated -R", testBsub, []string{"-R", "a", "-R", "b", "-R", "a", "x"}, "R=a R=b R=a | x"},
		{"blahp", testBsub, []string{"-L", "/bin/bash", "-J", "n", "-f", "a > b", "x"}, "L=/bin/bash J=n f=a > b | x"},
		{"Ray", testBsub, []string{"-Is", "-M", "20GB!", "-n", "2", "-gpu", "num=2", "bash"}, "Is M=20GB! n=2 gpu=num=2 | bash"},

		// The rules.
		{"a dash alone is a value", testBsub, []string{"-gpu", "-", "x"}, "gpu=- | x"},
		{"a dash alone is an operand", testBjobs, []string{"-"}, "| -"},
		{"two dashes end the options", testBjobs, []string{"-a", "--", "-l"}, "a | -l"},
		{"the whole word wins over letters", testBsub, []string{"-rn", "x"}, "rn | x"},
		{"flags bundle", testBjobs, []string{"-law"}, "l a w"},
		{"the last letter takes an attached value", testBjobs, []string{"-lauroot"}, "l a u=root"},
		{"an attached value keeps its blanks", testBsub, []string{"-Rselect[a] rusage[b]", "x"}, "R=select[a] rusage[b] | x"},
		{"a quoted value in one argument", testBsub, []string{"-J 'a -n b' -H"}, "J=a -n b H"},
		{"a letter with its number inside one argument", testBsub, []string{"-q normal -n2"}, "q=normal n=2"},
		{"a value by itself is never cut", testBsub, []string{"-J", "a -n 2", "x"}, "J=a -n 2 | x"},
		{"a value by itself keeps its quotes", testBsub, []string{"-J", "'a'", "x"}, "J='a' | x"},
		{"an empty value", testBsub, []string{"-J", "", "x"}, "J | x"},
		{"a value that begins with a dash", testBsub, []string{"-J", "-job", "x"}, "J=-job | x"},
		{"a number attached to a long word", testBsub, []string{"-nnodes4"}, "nnodes=4"},

		// Errors.
		{"a misspelt word", testBjobs, []string{"-nohaeder"}, `!"-nohaeder": unknown option; is -noheader meant? (bjobs -h lists the options)`},
		{"two dashes", testBjobs, []string{"--json"}, `!"--json": unknown option; is -json meant?`},
		{"nothing near", testBjobs, []string{"-zzz"}, `!"-zzz": unknown option (bjobs -h`},
		{"a word that begins like a number option", testBsub, []string{"-nodes", "3"}, `!"-nodes": unknown option; is -nnodes meant?`},
		{"one reading", testBsub, []string{"-elog"}, "e=log"},
		{"two readings", testBsub, []string{"-eocean.log"}, "!-eocean.log can be read in two ways: leave a blank after the option, as in -eo cean.log or -e ocean.log"},
		{"no value at the end", testBsub, []string{"-q"}, "!option -q needs a value"},
		{"an option for a value", testBsub, []string{"-q", "-n", "4"}, "!option -q needs a value, but the option -n follows"},
		{"a flag with a value in one argument", testBsub, []string{"-x 1"}, `!"-x 1": option -x takes no value`},
		{"a letter that is none in a bundle", testBjobs, []string{"-lz"}, `!"-lz": unknown option`},
	} {
		p, err := tc.command.Parse(tc.args)
		got := ""
		if err != nil {
			got = "!" + err.Error()
		} else {
			got = show(p)
		}
		if strings.HasPrefix(tc.want, "!") && strings.HasPrefix(got, tc.want) {
			continue
		}
		if got != tc.want {
			t.Errorf("%s: %s %q\n got %s\nwant %s", tc.why, tc.command.Name, tc.args, got, tc.want)
		}
	}
}

func TestHelpAndVersionAreOfEveryCommand(t *testing.T) {
	for _, word := range []string{"-h", "--help"} {
		for _, c := range []*Command{testBsub, testBjobs, testBkill} {
			if p, err := c.Parse([]string{word, "-nonsense"}); err != nil || !p.Help {
				t.Errorf("%s %s: %v %v", c.Name, word, p, err)
			}
		}
	}
	if p, err := testBjobs.Parse([]string{"-V"}); err != nil || !p.Version {
		t.Errorf("-V: %v %v", p, err)
	}
	if p, _ := testBsub.Parse([]string{"prog", "-h"}); p.Help {
		t.Error("-h of the job's program was taken for bsub's")
	}
}

func TestQueriesOfParsed(t *testing.T) {
	p, err := testBsub.Parse([]string{"-R", "a", "-q", "one", "-R", "b", "-q", "two", "-H", "x"})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Has("H") || p.Has("x") || p.Last("q") != "two" || p.Last("J") != "" || !reflect.DeepEqual(p.All("R"), []string{"a", "b"}) {
		t.Errorf("%+v", p)
	}
}

func TestAcceptedOptionsLeaveANote(t *testing.T) {
	c := &Command{Name: "bsub", StopAtOperand: true, Options: []Option{{Name: "csm", Value: Required, Accepted: true}}}
	p, err := c.Parse([]string{"-csm", "y", "x"})
	if err != nil || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "-csm") {
		t.Errorf("%+v %v", p, err)
	}
}

func TestHelpShowsEveryRowInEightyColumns(t *testing.T) {
	c := &Command{
		Name: "bdo", Usage: "[options] [job ...]", Summary: "does it", Example: "bdo -a 12\nbdo -o 'x y'",
		Options: []Option{
			{Name: "a", Group: "What", Help: "all of them, with so many words that the text cannot stand in one line of the page"},
			{Name: "o", Value: Required, Arg: "A-VERY-LONG-WORD-FOR-FIELDS", Help: "fields"},
			{Name: "secret", Hidden: true, Help: "not shown"},
		},
	}
	page := c.Help()
	for _, line := range strings.Split(page, "\n") {
		if len(line) > 80 {
			t.Errorf("too wide: %q", line)
		}
	}
	for _, want := range []string{"bdo: does it", "Usage: bdo [options]", "  bdo -o 'x y'", "\nWhat:\n", "-o A-VERY", "--help"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is missing in\n%s", want, page)
		}
	}
	if strings.Contains(page, "secret") {
		t.Errorf("a hidden option is shown:\n%s", page)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("-q normal -n 2\x00script")
	f.Add("-aJ\x00*x*\x00-o exit_code\x00--\x00-l")
	f.Add("-R'select[a] rusage[b]'\x00-M20000\x00-eocean")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		for _, c := range []*Command{testBsub, testBjobs, testBhist} {
			p, err := c.Parse(args)
			if err != nil {
				if text := err.Error(); p != nil || text == "" || len(text) > 1000 || strings.ContainsAny(text, "\n\x1b") {
					t.Fatalf("%q: %v with %v", args, err, p)
				}
				continue
			}
			for _, g := range p.Given {
				if o := c.Find(g.Name); o == nil || o.Value == None && g.Value != "" {
					t.Fatalf("%q gave %v", args, g)
				}
			}
			// What was understood, written out plainly, is understood the same.
			var again []string
			for _, g := range p.Given {
				if again = append(again, "-"+g.Name); c.Find(g.Name).Value == Required {
					again = append(again, g.Value)
				}
			}
			again = append(append(again, "--"), p.Operands...)
			if p.Help || p.Version {
				continue
			}
			q, err := c.Parse(again)
			if err != nil && strings.Contains(err.Error(), "follows") {
				continue // an attached value that looks like an option: it has only the attached form
			}
			if err != nil || show(p) != show(q) {
				t.Fatalf("%q: %s, but %q: %v %v", args, show(p), again, q, err)
			}
		}
	})
}
