package bsub

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"fairslice/queue"
	"fairslice/queue/option"
)

// shownScript and shownCommand are how many bytes of a script and of a command listings keep: every
// pending job's are in memory.
const (
	shownScript  = 512
	shownCommand = 4096
)

// work is what a job runs.
type work struct {
	script  []byte // what is kept and run
	text    []byte // where #BSUB lines are looked for
	command string // what listings show
	shell   string // what runs a script that does not say it; "" is the user's own shell
}

// work finds what to run: the script on standard input when there are no operands, a script file when
// the first operand is one, and else the operands as a shell's command.
func (in *Input) work(operands []string) (work, error) {
	if len(operands) > 0 && strings.TrimSpace(strings.Join(operands, "")) != "" {
		if w, ok := in.scriptFile(operands); ok {
			return w, nil
		}
		command := strings.Join(operands, " ")
		if strings.IndexByte(command, 0) >= 0 {
			return work{}, fmt.Errorf("The command holds a NUL byte")
		}
		if len(command) > queue.MaxScript {
			return work{}, fmt.Errorf("The command is larger than %d MiB", queue.MaxScript>>20)
		}
		return work{script: []byte(command + "\n"), command: cut(command, shownCommand)}, nil
	}
	if len(operands) > 0 || in.Stdin == nil {
		return work{}, queue.ErrNoCommand
	}
	b, err := in.Stdin()
	if err != nil {
		return work{}, fmt.Errorf("read the script from standard input: %w", err)
	}
	text, err := queue.CleanScript(b)
	if err != nil {
		return work{}, err
	}
	w := work{text: text, script: bangFirst(text), command: summary(text)}
	if !bytes.HasPrefix(w.script, []byte("#!")) {
		w.shell = "/bin/sh"
	}
	return w, nil
}

// scriptFile reads the script that the first operand names. Only a file with #BSUB lines is taken as
// a script and kept, for there the user means bsub to read it, and many delete it right after. Any
// other file is run where it is, as LSF does: it may look for its neighbours by its own path, and one
// that is missing or not executable must end as it would in a shell (127, 126).
func (in *Input) scriptFile(operands []string) (work, bool) {
	if in.ReadFile == nil || strings.EqualFold(in.getenv("LSB_BSUB_PARSE_SCRIPT"), "n") {
		return work{}, false
	}
	b, err := in.ReadFile(operands[0])
	if err != nil {
		return work{}, false
	}
	text, err := queue.CleanScript(b)
	if err != nil || !hasDirective(text) {
		return work{}, false
	}
	w := work{text: text, script: bangFirst(text), command: cut(strings.Join(operands, " "), shownCommand)}
	if !bytes.HasPrefix(w.script, []byte("#!")) {
		w.shell = "/bin/sh"
	}
	if len(operands) > 1 {
		if !shellScript(w.script) {
			// The kept copy has no way to pass arguments to another interpreter: read the options, run
			// the file where it is.
			w.script, w.shell = []byte(strings.Join(operands, " ")+"\n"), ""
			return w, true
		}
		w.script = withArguments(w.script, operands[1:])
	}
	return w, true
}

// hasDirective tells a script for bsub from other files. A quote that is not closed counts, so that it is reported.
func hasDirective(text []byte) bool {
	list, err := queue.Directives(text)
	return err != nil || len(list) > 0
}

// bangFirst moves the "#!" line to the top: generators leave blank lines above it, and the kernel
// looks only at the first two bytes.
func bangFirst(text []byte) []byte {
	if trimmed := bytes.TrimLeft(text, " \t\n"); bytes.HasPrefix(trimmed, []byte("#!")) {
		return trimmed
	}
	return text
}

// shellScript says that a Bourne shell will run the script.
func shellScript(script []byte) bool {
	line, _, _ := bytes.Cut(script, []byte("\n"))
	bang, ok := bytes.CutPrefix(line, []byte("#!"))
	if !ok {
		return true // /bin/sh
	}
	words := strings.Fields(string(bang))
	for len(words) > 1 && (path.Base(words[0]) == "env" || strings.HasPrefix(words[0], "-")) {
		words = words[1:]
	}
	if len(words) == 0 {
		return false
	}
	switch path.Base(words[0]) {
	case "sh", "bash", "dash", "ksh", "zsh", "ash":
		return true
	}
	return false
}

// withArguments gives a shell script its arguments, below the "#!" line.
func withArguments(script []byte, args []string) []byte {
	var set strings.Builder
	set.WriteString("set --")
	for _, a := range args {
		set.WriteString(" '" + strings.ReplaceAll(a, "'", `'\''`) + "'")
	}
	set.WriteByte('\n')
	head, body := []byte(nil), script
	if bytes.HasPrefix(script, []byte("#!")) {
		i := bytes.IndexByte(script, '\n') + 1
		head, body = script[:i], script[i:]
	}
	return append(append(bytes.Clone(head), set.String()...), body...)
}

// summary is what listings show of a script: its lines without the comments, joined by ";".
func summary(text []byte) string {
	var b strings.Builder
	for len(text) > 0 && b.Len() <= shownScript {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(';')
		}
		b.Write(line[:min(len(line), shownScript+1)])
	}
	return cut(b.String(), shownScript)
}

// cut makes s valid text of at most n bytes, without splitting a character.
func cut(s string, n int) string {
	s = strings.ToValidUTF8(s[:min(len(s), n+4)], "?")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}

// directives are the options of a script's #BSUB lines. A word that is no option ends its line, as in
// LSF; a note says so, for it is mostly a value that lacks its quotes.
func directives(text []byte) ([]queue.Given, []string, error) {
	list, err := queue.Directives(text)
	if err != nil {
		return nil, nil, err
	}
	var all []option.Given
	var notes []string
	for _, d := range list {
		p, err := Command.Parse(d.Args)
		if err != nil {
			return nil, nil, fmt.Errorf("Line %d of the script: %w", d.Line, err)
		}
		all = append(all, p.Given...)
		for _, n := range p.Notes {
			notes = append(notes, fmt.Sprintf("line %d of the script: %s", d.Line, n))
		}
		if p.Help || p.Version {
			return nil, nil, fmt.Errorf("Line %d of the script: -h and -V have no place in a script", d.Line)
		}
		if len(p.Operands) > 0 {
			notes = append(notes, fmt.Sprintf("line %d of the script: %q is not an option and was ignored with all that follows; a value with blanks needs quotes",
				d.Line, shorten(strings.Join(p.Operands, " "))))
		}
	}
	return given(all), notes, nil
}
