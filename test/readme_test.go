package test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// readmeBlocks are the shell blocks of README.md, by the heading they stand under.
func readmeBlocks(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string][]string{}
	heading, inside := "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "## "):
			heading = strings.TrimPrefix(line, "## ")
		case line == "```sh":
			inside = true
		case line == "```":
			inside = false
		case inside && line != "":
			blocks[heading] = append(blocks[heading], line)
		}
	}
	return blocks
}

var aComment = regexp.MustCompile(`\s+# .*$`)

// TestReadmeCommands runs what the README tells a user to type in a running cluster.
func TestReadmeCommands(t *testing.T) {
	c := running(t)
	lines := readmeBlocks(t)["A cluster of one terminal"]
	if len(lines) < 5 {
		t.Fatalf("the section has %d commands", len(lines))
	}
	work := t.TempDir()
	first := "" // the number of the first job: the README's is 1, on a new cluster
	for _, line := range lines {
		line = aComment.ReplaceAllString(line, "")
		if strings.HasPrefix(line, "make ") || strings.HasPrefix(line, "out/batchd ") {
			continue // TestReadmeCluster
		}
		cmd := exec.Command("sh", "-c", strings.Replace(line, "bhist -l 1", "bhist -l "+first, 1))
		cmd.Dir, cmd.Env = work, append(os.Environ(), c.environment(c.home)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
		if m := regexp.MustCompile(`Job <(\d+)>`).FindSubmatch(out); m != nil && first == "" {
			first = string(m[1])
		}
	}
	if err := c.quiet(); err != nil {
		t.Error(err)
	}
}

// nothingYet is what commands say on a new cluster, where no job is over, and none is of long ago.
var nothingYet = map[string]string{"bacct -u": "No matching job found", "badmin archive": "nothing to archive", "badmin restore": "no such file"}

// TestReadmeAccounts loads the policy that the README shows, and runs the commands below it.
func TestReadmeAccounts(t *testing.T) {
	c := running(t)
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Accounts, limits and reports\n")
	_, policy, _ := strings.Cut(section, "```\n")
	policy, _, _ = strings.Cut(policy, "```")
	work := t.TempDir()
	if err := os.WriteFile(filepath.Join(work, "site.policy"), []byte(policy), 0o644); err != nil {
		t.Fatal(err)
	}
	lines := readmeBlocks(t)["Accounts, limits and reports"]
	if len(lines) < 5 || !strings.HasPrefix(policy, "account ") {
		t.Fatalf("the section has %d commands, and the policy %q", len(lines), policy)
	}
	defer func() { // other tests are of a site without accounts
		if out, errs, code := c.try(work, "echo '# nothing' > none && badmin account load -f none"); code != 0 {
			t.Errorf("the policy is not taken back: %s%s", out, errs)
		}
	}()
	for _, line := range lines {
		line = aComment.ReplaceAllString(line, "")
		out, errs, code := c.try(work, line)
		if nothing := nothingYet[strings.Join(strings.Fields(line)[:min(2, len(strings.Fields(line)))], " ")]; code != 0 && (nothing == "" || !strings.Contains(errs, nothing)) {
			t.Errorf("%s: exit %d\n%s%s", line, code, out, errs)
		}
	}
	if out := c.must(t, work, "bshare"); !strings.Contains(out, "physics") || !strings.Contains(out, "alice") {
		t.Errorf("bshare shows\n%s", out)
	}
}

// TestReadmeCluster starts the cluster that the README starts, and ends it as Ctrl-C does.
func TestReadmeCluster(t *testing.T) {
	c := running(t)
	i := slices.IndexFunc(readmeBlocks(t)["A cluster of one terminal"], func(l string) bool { return strings.HasPrefix(l, "out/batchd dev ") })
	if i < 0 {
		t.Fatal("the README starts no cluster")
	}
	dir, err := os.MkdirTemp("", "fs-readme-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(readmeBlocks(t)["A cluster of one terminal"][i])[1:]
	for i, w := range words {
		if w == "/tmp/fs" {
			words[i] = filepath.Join(dir, "fs")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "batchd"), words...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if want := "ready: export FAIRSLICE_ADDR=unix://" + filepath.Join(dir, "fs") + "/batchd.sock\n"; err != nil || line != want {
		t.Errorf("got %q, %v; want %q", line, err, want)
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
}

// TestReadmeTargets looks whether make knows what the README names.
func TestReadmeTargets(t *testing.T) {
	out, err := exec.Command("make", "-C", "..", "--no-print-directory", "help").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"demo", "test", "race", "lint", "fuzz", "bench", "check", "build", "help"} {
		if !regexp.MustCompile(`(?m)^  ` + target + ` `).Match(out) {
			t.Errorf("make help does not list %s", target)
		}
	}
}

// TestInstallation runs what the README says about installing for real that can be run anywhere.
func TestInstallation(t *testing.T) {
	c := running(t)
	dir := t.TempDir()
	sample, err := os.ReadFile("../etc/fairslice.toml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "fairslice.toml")
	text := strings.Replace(string(sample), `state_dir = "/var/lib/fairslice"`, `state_dir = "`+dir+`"`, 1)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"batchd", "check", "--config", file},
		{"batchd", "token", "node", "--config", file, "node7"},
		{"batchd", "token", "user", "--config", file, c.user},
		{"bcli", "--commands"},
	} {
		if out, err := exec.Command(filepath.Join(c.bin, args[0]), args[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

// TestDemo is make demo without its installing and building.
func TestDemo(t *testing.T) {
	c := running(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "../etc/demo.sh")
	cmd.Env = append(os.Environ(), "FAIRSLICE_BIN="+c.bin)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"hello from ", "Successfully completed.", "the freest has 0", "total 2147483648 free 2080374784", "fill graph ok total 2080374784", "greedy 10 100 graph ok", "TERM_GPU_MEMLIMIT",
		"TERM_MEMLIMIT: job killed after reaching LSF memory usage limit", "TERM_RUNLIMIT: job killed after reaching LSF run time limit",
		"Summary of time in seconds", "simulated", "running as",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the demo does not show %q", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

// TestReadmeReplay runs the replay that README.md shows, and compares all of it but the time that it took.
func TestReadmeReplay(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n$ bsim replay ")
	shown, _, _ := strings.Cut(rest, "\n```")
	args, want, _ := strings.Cut(shown, "\n")
	if !found {
		t.Fatal("README.md shows no bsim replay")
	}
	cmd := exec.Command(filepath.Join(running(t).bin, "bsim"), append([]string{"replay"}, strings.Fields(args)...)...)
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	took := regexp.MustCompile(`(?m)^seconds used .*$`)
	if got, want := took.ReplaceAllString(strings.TrimSpace(string(out)), ""), took.ReplaceAllString(want, ""); got != want {
		t.Errorf("bsim prints\n%s\nREADME.md shows\n%s", got, want)
	}
}
