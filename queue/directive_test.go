package queue

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestDirectives(t *testing.T) {
	for _, tc := range []struct{ why, script, want string }{
		{"plain", "#!/bin/sh\n#BSUB -J x\n#BSUB -n 4 -q normal\necho\n", `2[-J x] 3[-n 4 -q normal]`},
		{"the whole script is read", "echo a\n#BSUB -q late\n", `2[-q late]`},
		{"ipyparallel: leading blanks", "    #BSUB -env all\n\t#BSUB -J a\n", `1[-env all] 2[-J a]`},
		{"blanks between # and BSUB", "#  BSUB -J a\n", `1[-J a]`},
		{"comments", "##BSUB -J a\n#bsub -J a\n# BSUB is ours\n#BSUB\n#BSUB-J a\n#BSUBx -J a\n# #BSUB -J a\n", ``},
		{"dask: quotes keep blanks", `#BSUB -P "Dask On LSF"`, `1[-P Dask On LSF]`},
		{"batchspawner: a comment at the end", "#BSUB -R \"select[type==any]\"    # Allow spawning anywhere\n", `1[-R select[type==any]]`},
		{"a # in a word is none", "#BSUB -J a#b '#c' # d\n", `1[-J a#b #c]`},
		{"Pulsar: the other quotes stay", `#BSUB -R "select[hname!='h']"`, `1[-R select[hname!='h']]`},
		{"a quote in the middle of a word", `#BSUB -R'select[a b]'"x y"`, `1[-Rselect[a b]x y]`},
		{"escaped quotes", `#BSUB -w "done(\"a b\")" -J a\ b -o 'c\d'`, `1[-w done("a b") -J a b -o c\d]`},
		{"nothing is expanded", "#BSUB -o $HOME/%J.`id`\n", "1[-o $HOME/%J.`id`]"},
		{"an empty word", `#BSUB -J ""`, `1[-J ]`},
		{"a backslash joins", "#BSUB -J a \\\n -n 4\n#BSUB -H\n", `1[-J a -n 4] 3[-H]`},
		{"a backslash joins with #BSUB again", "#BSUB -J a \\\n#BSUB -n 4\necho\n", `1[-J a -n 4]`},
		{"a backslash at the end of the script", "#BSUB -J a \\", `1[-J a]`},
		{"CRLF", "#!/bin/sh\r\n#BSUB -J a\r\n#BSUB -q b \\\r\n -n 2\r\n", `2[-J a] 3[-q b -n 2]`},
		{"radical.saga: blanks at the end", "#BSUB -q normal \n", `1[-q normal]`},
		{"only a comment after the word", "#BSUB -H#\n", `1[-H#]`},
		{"any bytes", "#BSUB -J \xff\xfe\n", "1[-J \xff\xfe]"},
		{"a quote that is not closed", "echo\n#BSUB -J \"a\n", `error: line 2: #BSUB with a quote (") that is not closed`},
	} {
		list, err := Directives([]byte(tc.script))
		var got []string
		for _, d := range list {
			got = append(got, fmt.Sprint(d.Line, d.Args))
		}
		text := strings.ReplaceAll(strings.Join(got, " "), " [", "[")
		if err != nil {
			text = "error: " + err.Error()
		}
		if text != tc.want {
			t.Errorf("%s: %q\n got %s\nwant %s", tc.why, tc.script, text, tc.want)
		}
	}
}

func TestCleanScript(t *testing.T) {
	for _, tc := range []struct{ why, script, want, err string }{
		{"as it is", "#!/bin/sh\necho\n", "#!/bin/sh\necho\n", ""},
		{"CRLF", "#!/bin/sh\r\necho a\rb\r\n", "#!/bin/sh\necho a\rb\n", ""},
		{"CR at the end", "echo\r\nx\r", "echo\nx", ""},
		{"byte order mark", "\xef\xbb\xbf#!/bin/sh\nx", "#!/bin/sh\nx", ""},
		{"Latin-1", "echo \xe4\n", "echo \xe4\n", ""},
		{"empty", "", "", "No command is specified"},
		{"blank", " \r\n\t\n", "", "No command is specified"},
		{"comments only", "#!/bin/sh\n  #BSUB -J a\n\n", "", "Empty job"},
		{"NUL", "a\nb\x00\n", "", "Line 2 of the script holds a NUL byte: it is no text, or text in UTF-16"},
		{"too large", strings.Repeat("x", MaxScript+1), "", "The script is larger than 16 MiB"},
	} {
		got, err := CleanScript([]byte(tc.script))
		text := ""
		if err != nil {
			text = err.Error()
		}
		if string(got) != tc.want || text != tc.err {
			t.Errorf("%s: got %.80q %q", tc.why, got, text)
		}
	}
	large := bytes.Repeat([]byte("echo line\n"), 1<<20)
	if got, err := CleanScript(large); err != nil || len(got) != len(large) {
		t.Errorf("10 MiB: %d bytes, %v", len(got), err)
	}
}

func FuzzDirectives(f *testing.F) {
	f.Add([]byte("#!/bin/sh\r\n#BSUB -J \"a b\" \\\n -n 4 # x\n##BSUB -q\n"), "a b")
	f.Add([]byte(`#BSUB -w 'done("x")' -R"select[a]"`), `it's "q" \`)
	f.Fuzz(func(t *testing.T, script []byte, word string) {
		lines := 1 + bytes.Count(script, []byte("\n"))
		before := 0
		list, _ := Directives(script)
		for _, d := range list {
			if d.Line <= before || d.Line > lines || len(d.Args) == 0 {
				t.Fatalf("%q: %+v", script, d)
			}
			before = d.Line
		}
		if clean, err := CleanScript(script); err == nil {
			if again, err := CleanScript(clean); err != nil || len(again) > len(clean) {
				t.Fatalf("cleaned twice: %q %v", again, err)
			}
		}
		// Any word comes through when it is quoted.
		if strings.ContainsAny(word, "\n\r") {
			return
		}
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word)
		list, err := Directives([]byte(`#BSUB -J "` + quoted + `"`))
		if err != nil || len(list) != 1 || len(list[0].Args) != 2 || list[0].Args[1] != word {
			t.Fatalf("%q came back as %+v, %v", word, list, err)
		}
	})
}

func TestDirectivesOfTheLargestScriptAreQuick(t *testing.T) {
	joined := append([]byte("#BSUB -J a "), bytes.Repeat([]byte("\\\n"), MaxScript/2-8)...)
	if list, err := Directives(joined); err != nil || len(list) != 1 {
		t.Errorf("%d directives, %v", len(list), err)
	}
}
