package shim_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is longer than anything here takes, unless it hangs.
const patience = time.Minute

var built string // where the programs of these tests are

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fairslice-shim-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var build = sync.OnceValue(func() error {
	cmd := exec.Command("sh", "build.sh")
	cmd.Env = append(os.Environ(), "OUT="+built)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build.sh: %w\n%s", err, text)
	}
	for name, args := range programs {
		args = append(strings.Fields("-std=gnu11 -O1 -Wall -Wextra -Werror -o "+filepath.Join(built, name)), args...)
		if text, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("compile %s: %w\n%s", name, err, text)
		}
	}
	return os.Symlink("stub.so", filepath.Join(built, "libcuda.so.1"))
})

// buildJob makes the simulated driver, in its folder sim, and the program that uses it (testdata/job.c).
var buildJob = sync.OnceValue(func() error {
	if err := build(); err != nil {
		return err
	}
	sim := filepath.Join(built, "sim")
	cmd := exec.Command("sh", "../simdriver/build.sh")
	cmd.Env = append(os.Environ(), "OUT="+sim)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the simulated driver's build.sh: %w\n%s", err, text)
	}
	args := strings.Fields("-std=gnu11 -O1 -Wall -Wextra -Werror -o " + filepath.Join(built, "job") + " testdata/job.c -L" + sim + " -l:libcuda.so.1 -lpthread -ldl")
	if text, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("compile job: %w\n%s", err, text)
	}
	return nil
})

// programs are what is compiled from testdata, with its arguments. The stub is a driver of a few functions, in stub.c.
var programs = map[string][]string{
	"region":  {"testdata/region.c"},
	"finds":   {"testdata/finds.c", "-ldl"},
	"next.so": {"testdata/next.c", "-shared", "-fPIC"},
	"stub.so": {"testdata/stub.c", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1", "-Wl,--version-script=testdata/versions.map"},
}

func library(t *testing.T, name string) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(built, name)
}

// stubUUID is how the stub's only device is named.
const stubUUID = "GPU-00000000-0000-0000-0000-000000000000"

// region makes the files of a slice of one device and returns their directory. share and phase are in 1/100 percent.
func region(t *testing.T, uuid string, limit, context int64, share, phase int) string {
	t.Helper()
	dir := t.TempDir()
	text, err := exec.Command(library(t, "region"), dir, uuid, strconv.FormatInt(limit, 10), strconv.FormatInt(context, 10), strconv.Itoa(share), strconv.Itoa(phase)).CombinedOutput()
	if err != nil {
		t.Fatalf("make a region: %v\n%s", err, text)
	}
	return dir
}

// fenced is a command with the shim preloaded, and nothing of this process's environment.
func fenced(t *testing.T, region string, env []string, program string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	t.Cleanup(stop)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "LD_PRELOAD=" + library(t, "libfgpu.so")}, env...)
	if region != "" {
		cmd.Env = append(cmd.Env, "FAIRSLICE_FGPU_DIR="+region)
	}
	return cmd
}

// run runs a command and returns what it printed on standard output and error; it must exit with code.
func run(t *testing.T, cmd *exec.Cmd, code int) (stdout, stderr string) {
	t.Helper()
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	_ = cmd.Run() // the exit code says it
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("%s: exit code %d, want %d (%v)\n%s%s", strings.Join(cmd.Args, " "), got, code, cmd.ProcessState, out.String(), errors.String())
	}
	return out.String(), errors.String()
}
