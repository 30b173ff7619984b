package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"fairslice/nodes/fgpu"
)

// Exit statuses.
const (
	shown     = 0
	failed    = 1 // the slice cannot be read
	wrong     = 2 // option
	sliceless = 3 // this is no job with a slice
)

// region is what of a fgpu.View is needed.
type region interface {
	Info() fgpu.Info
	Usage() ([]fgpu.DeviceUsage, error)
	History(device int) []fgpu.Sample
	Close() error
}

// system is everything outside the program.
type system struct {
	getenv    func(string) string
	find      func(getenv func(string) string) (dir string, err error)
	open      func(dir string) (region, error)
	program   func(pid int) string
	now       time.Time
	monotonic uint64
}

func run(args []string, s system, stdout, stderr io.Writer) int {
	o, err := parse(args)
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "fgpu-smi: %v\n", err)
		return wrong
	case o.help:
		fmt.Fprint(stdout, usage)
		return shown
	case o.version:
		fmt.Fprintf(stdout, "fgpu-smi %s\n", version)
		return shown
	}
	dir, err := s.find(s.getenv)
	if errors.Is(err, fgpu.ErrNoSlice) {
		fmt.Fprintln(stderr, noSlice)
		return sliceless
	}
	var r region
	if err == nil {
		r, err = s.open(dir)
	}
	switch {
	case errors.Is(err, fgpu.ErrNoSlice):
		fmt.Fprintln(stderr, noSlice)
		return sliceless
	case err != nil:
		fmt.Fprintf(stderr, "fgpu-smi: %v\n", err)
		return failed
	}
	defer r.Close()
	if err := show(r, o, s, stdout); err != nil {
		fmt.Fprintf(stderr, "fgpu-smi: %v\n", err)
		return failed
	}
	return shown
}

const noSlice = "fgpu-smi: no slice of a GPU here: this is not a job that asked for one (bsub -gpu fgpu=0.5 ...), or not on its node"

func show(r region, o options, s system, w io.Writer) error {
	state := look(r, s)
	if o.history {
		state.addHistory(r, o.minutes)
	}
	var b strings.Builder
	switch {
	case o.json && o.list:
		state.Processes = nil
		state.writeJSON(&b)
	case o.json:
		state.writeJSON(&b)
	case o.list:
		state.writeList(&b)
	case o.history:
		state.writeHistory(&b, unicodeLocale(s.getenv))
	default:
		state.writeTable(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// unicodeLocale says whether the terminal shows more than ASCII, by the variables that setlocale(3) reads, in its order.
func unicodeLocale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}
