package tenant_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"fairslice/nodes/fgpu/tenant"
)

func TestWordsThatTheTenantDoesNotUnderstand(t *testing.T) {
	m := machine(t)
	for _, words := range []string{
		"", "no-such-command", "what=ever info", "streams=both info", "version=x info", "alloc", "alloc malloc", "alloc nothing 1", "alloc malloc 1X",
		"alloc malloc -1", "alloc malloc 99999999999999999999", "alloc malloc 99999999999G", "free", "free x", "free 999999", "fill", "fill nothing",
		"launch 1", "greedy 1 0", "threads 0 1 1", "threads 9999 1 1", "latency 0", "kill9 1", "spawn 5000 1", "hold x", "scribble all",
	} {
		out, err := m.Run(t.Context(), "", strings.Fields(words)...)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || len(out) > 0 {
			t.Errorf("%q: %q, %v", words, out, err)
		}
	}
}

func FuzzLine(f *testing.F) {
	f.Add("fill malloc ok total 12 after 0\nprocess 7 99\n", "total")
	f.Add(" \x00\n\n", "")
	f.Fuzz(func(t *testing.T, text, word string) {
		lines := tenant.Lines(text)
		if n := strings.Count(text, "\n"); len(lines) < n || len(lines) > n+1 {
			t.Errorf("%d lines of %q", len(lines), text)
		}
		for _, l := range lines {
			if n := l.Number(word); n >= 0 && !l.Has(word) {
				t.Errorf("%q: a number %d after %q, which is not there", l, n, word)
			}
		}
	})
}
