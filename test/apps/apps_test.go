package apps

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fairslice/images"
)

// needApps skips a test where nobody has asked for images and browsers.
func needApps(t *testing.T) {
	t.Helper()
	if os.Getenv("FAIRSLICE_APPS") != "1" {
		t.Skip("FAIRSLICE_APPS=1 is not set: this test needs real images and a browser; 'make test-apps' sets it")
	}
}

// image builds an image by etc/image-NAME.sh, or takes it from that script's cache, and returns the SIF file, whose labels
// mean something to us.
func image(t *testing.T, name string, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), name+".sif")
	script := "../../etc/image-" + name + ".sh"
	if text, err := exec.Command(script, append(args, out)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, text)
	}
	text, err := contained(out, t.TempDir(), "cat", "/.singularity.d/labels.json").Output()
	if err != nil {
		t.Fatal("read the labels of ", name, ": ", err)
	}
	var raw map[string]string
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatalf("labels of %s: %v\n%s", name, err, text)
	}
	labels, err := images.ParseLabels(raw)
	if err != nil {
		t.Fatalf("labels of %s: %v", name, err)
	}
	if labels.RuntimeType != "python" || labels.Min.CPU == 0 {
		t.Fatalf("labels of %s: %+v, want a python that needs something", name, labels)
	}
	return out
}

// contained is a command in an image that sees nothing of this machine but the folder home, its home and working directory.
func contained(sif, home string, argv ...string) *exec.Cmd {
	cmd := exec.Command("apptainer", append([]string{"--quiet", "exec", "--contain", "--home", home + ":/home/work", "--pwd", "/home/work", sif}, argv...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	cmd.Stderr = os.Stderr
	return cmd
}

// The same command is another program in another image; both run at the same time.
func TestTwoPythons(t *testing.T) {
	needApps(t)
	const program = `
import sys, numpy
assert numpy.arange(4).sum() == 6
print(sys.version_info.major, sys.version_info.minor, sep=".", flush=True)
sys.stdin.read()`
	type running struct {
		cmd   *exec.Cmd
		stdin io.Closer
	}
	var both []running
	for _, version := range []string{"3.11", "3.13"} {
		cmd := contained(image(t, "python", version), t.TempDir(), "python3", "-c", program)
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		both = append(both, running{cmd, stdin})
		t.Cleanup(func() { _ = stdin.Close() })
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil {
			t.Fatalf("python %s said nothing: %v", version, err)
		}
		if got := strings.TrimSpace(line); got != version {
			t.Errorf("in python:%s the version is %s", version, got)
		}
	}
	// Each waits for the end of its input, so the first was still there when the second had answered.
	for _, r := range both {
		_ = r.stdin.Close()
		if err := r.cmd.Wait(); err != nil {
			t.Error(fmt.Errorf("%s: %w", r.cmd, err))
		}
	}
}
