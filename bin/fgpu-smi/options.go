package main

import (
	"fmt"
	"strconv"
	"strings"
)

// historyMinutes is how far back noded remembers.
const historyMinutes = 10

// options are what the command line asks for.
type options struct {
	history, json, list, help, version bool
	minutes                            int // of the history shown
}

const usage = `Usage: fgpu-smi [--history [--minutes N]] [--json]
       fgpu-smi -L [--json]

Shows this job's slices of GPUs: what it may use and what it uses.

  --history      the last minutes of utilization and memory, as a plot
  --minutes N    of the history, 1 to 10 (default 5)
  --json         the same as a document
  -L             only which GPUs there are
  -h, --help     this text
  -V, --version  the version

Memory used is what the job's processes hold, with their contexts, and is what nvidia-smi and cuMemGetInfo show in this job.
SM is the job's part of the GPU's multiprocessor time, of the part that it may use. To watch it: watch fgpu-smi

Exit status: 0 shown, 1 the slice cannot be read, 2 a wrong option, 3 this job has no slice of a GPU.

Examples:
  fgpu-smi
  fgpu-smi --history --minutes 2
  fgpu-smi --json | jq '.gpus[0].memory_used_bytes'
`

// parse reads the command line. The error says what is allowed.
func parse(args []string) (options, error) {
	o := options{minutes: 5}
	minutesGiven := false
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		if joined && name != "--minutes" {
			return options{}, fmt.Errorf("unknown option %s: want one of %s", quoted(args[i]), allowed)
		}
		switch name {
		case "--history":
			o.history = true
		case "--json":
			o.json = true
		case "-L":
			o.list = true
		case "-h", "--help":
			o.help = true
		case "-V", "--version":
			o.version = true
		case "--minutes":
			if !joined {
				if i++; i == len(args) {
					return options{}, fmt.Errorf("--minutes needs a number from 1 to %d", historyMinutes)
				}
				value = args[i]
			}
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > historyMinutes || value[0] == '+' {
				return options{}, fmt.Errorf("--minutes %s: want a number from 1 to %d", quoted(value), historyMinutes)
			}
			o.minutes, minutesGiven = n, true
		default:
			return options{}, fmt.Errorf("unknown option %s: want one of %s", quoted(args[i]), allowed)
		}
	}
	switch {
	case o.list && o.history:
		return options{}, fmt.Errorf("-L and --history exclude each other")
	case minutesGiven && !o.history:
		return options{}, fmt.Errorf("--minutes is for --history")
	}
	return o, nil
}

const allowed = "--history, --minutes N, --json, -L, --help, --version"

// quoted is a word from outside, so that it can be printed.
func quoted(s string) string {
	if len(s) > 60 {
		s = s[:60] + "..."
	}
	return strconv.Quote(s)
}
