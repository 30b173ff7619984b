package tenant_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The script for real GPUs, run on the simulated driver. Whether its figures of time are as wanted depends on what else this machine
// does: they must be there. Those of memory must be right.
func TestGPUCheck(t *testing.T) {
	if testing.Short() {
		t.Skip("takes most of a minute")
	}
	if err := build(); err != nil {
		t.Fatal(err)
	}
	compile := exec.Command("go", "build", "-o", filepath.Join(built, "mkregion"), "./region")
	if text, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, "../../../etc/gpu-check.sh", "--simulated")
	cmd.Env = append(os.Environ(), "FAIRSLICE_BIN="+built)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	t.Logf("%s", out)
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if !strings.Contains(string(out), "SIMULATED") {
		t.Error("the table does not say that it is of a simulated driver")
	}
	rows := map[string]int{}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if len(line) < 3 || line[0] != '(' {
			continue
		}
		part := line[:3]
		rows[part]++
		if (part == "(a)" || part == "(c)" || part == "(f)") && !strings.HasSuffix(line, "ok") && !strings.Contains(line, "not here") {
			t.Error(line)
		}
		if strings.Contains(line, "?") {
			t.Errorf("not measured: %s", line)
		}
	}
	for part, least := range map[string]int{"(a)": 4, "(b)": 1, "(c)": 10, "(d)": 6, "(e)": 6, "(f)": 2, "(g)": 1} {
		if rows[part] < least {
			t.Errorf("%s has %d rows: want %d", part, rows[part], least)
		}
	}
}
