package tenant

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"fairslice/nodes"
	"fairslice/nodes/fgpu"
)

// ShimLibrary is the file that is preloaded into the programs of a slice.
const ShimLibrary = "libfgpu.so"

// Machine is where tenants run.
type Machine struct {
	Programs string   // folder of the tenant's programs and of the shim
	Driver   string   // folder of a simulated driver's libraries; empty: the machine's own driver
	Env      []string // "NAME=value": the knobs of a simulated driver
}

// Command is a tenant with these words, in the slice whose region is in the directory region; none: unfenced. It inherits
// nothing of this process's environment but what Machine says.
func (m *Machine) Command(ctx context.Context, region string, words ...string) *exec.Cmd {
	return m.Other(ctx, Program, region, words...)
}

// Other is Command for another of the programs.
func (m *Machine) Other(ctx context.Context, program, region string, words ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(m.Programs, program), words...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, m.Env...)
	if m.Driver != "" {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+m.Driver)
	}
	if region != "" {
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+filepath.Join(m.Programs, ShimLibrary), "FAIRSLICE_FGPU_DIR="+region)
	}
	return cmd
}

// Run runs a tenant to its end and returns the lines it printed. What it wrote to stderr is in the error.
func (m *Machine) Run(ctx context.Context, region string, words ...string) ([]Line, error) {
	return run(m.Command(ctx, region, words...))
}

func run(cmd *exec.Cmd) ([]Line, error) {
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	lines := Lines(string(out))
	if err != nil {
		return lines, fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args[1:], " "), err, out, stderr.String())
	}
	return lines, nil
}

// UUID asks NVML for the id of the first GPU.
func (m *Machine) UUID(ctx context.Context) (string, error) {
	lines, err := m.Run(ctx, "", "nvml")
	if err != nil {
		return "", err
	}
	for _, l := range lines {
		if uuid, ok := l.Word("device"); ok && strings.HasPrefix(string(l), "nvml") {
			return uuid, nil
		}
	}
	return "", fmt.Errorf("no GPU: %q", lines)
}

// Slice is what a region is made for: the first GPU's memory in bytes, its contexts included, and its share
// of the time in 1/100 percent.
type Slice struct {
	UUID    string
	Memory  int64
	Share   int
	Phase   int   // 1/100 percent of the frame, where its window begins
	Context int64 // bytes of one context
	Policy  fgpu.Policy
}

// start is the moment at which a frame of every region of this process began.
var start = fgpu.Monotonic()

// Make makes the region of one slice for tenants of this process's user.
func (m *Machine) Make(dir string, s Slice) (*fgpu.Region, error) {
	return fgpu.Create(dir, fgpu.Spec{
		Job:    filepath.Base(dir),
		Policy: s.Policy,
		UID:    os.Getuid(), GID: os.Getgid(),
		Frame: fgpu.DefaultFrame, FrameStart: start,
		Devices: []fgpu.Device{{
			Slice:    nodes.Slice{UUID: s.UUID, Memory: s.Memory, SMShare: s.Share, Mode: nodes.ModeShim},
			Physical: s.Memory, Context: s.Context, Phase: s.Phase,
		}},
	})
}

// Line is one line that a tenant printed: words and numbers, a number after the word that says what it is.
type Line string

// Lines splits what a tenant printed.
func Lines(text string) []Line {
	var lines []Line
	for l := range strings.Lines(text) {
		lines = append(lines, Line(strings.TrimSuffix(l, "\n")))
	}
	return lines
}

// Word is what follows the given word.
func (l Line) Word(after string) (string, bool) {
	words := strings.Fields(string(l))
	for i := range len(words) - 1 {
		if words[i] == after {
			return words[i+1], true
		}
	}
	return "", false
}

// Number is the number that follows the given word, or -1.
func (l Line) Number(after string) int64 {
	w, _ := l.Word(after)
	n, err := strconv.ParseInt(w, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// Has says that the line has the word.
func (l Line) Has(word string) bool {
	for _, w := range strings.Fields(string(l)) {
		if w == word {
			return true
		}
	}
	return false
}

// Find returns the first line that begins with the given text, or the empty line.
func Find(lines []Line, begins string) Line {
	for _, l := range lines {
		if strings.HasPrefix(string(l), begins) {
			return l
		}
	}
	return ""
}

// Talk is a running tenant that does one command after the other as it is told.
type Talk struct {
	cmd   *exec.Cmd
	words io.WriteCloser
	lines *bufio.Reader
}

// Talk starts a tenant that reads commands.
func (m *Machine) Talk(ctx context.Context, region string, options ...string) (*Talk, error) {
	t := &Talk{cmd: m.Command(ctx, region, append(options, "-")...)}
	t.cmd.WaitDelay = time.Second // its children may keep the pipe
	in, err := t.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.words, t.lines = in, bufio.NewReader(out)
	return t, t.cmd.Start()
}

// PID is the process's id.
func (t *Talk) PID() int { return t.cmd.Process.Pid }

// Say gives a command and does not wait for what it prints.
func (t *Talk) Say(command string) error {
	_, err := io.WriteString(t.words, command+"\n")
	return err
}

// Hear waits for a line.
func (t *Talk) Hear() (Line, error) {
	l, err := t.lines.ReadString('\n')
	return Line(strings.TrimSuffix(l, "\n")), err
}

// Do gives a command and returns the line it prints.
func (t *Talk) Do(command string) (Line, error) {
	if err := t.Say(command); err != nil {
		return "", err
	}
	return t.Hear()
}

// Kill ends the process as kill -9 does and waits until it is gone.
func (t *Talk) Kill() {
	_ = t.cmd.Process.Kill()
	_ = t.cmd.Wait()
}

// Holding is what NVML says each process holds, in bytes by process id. t must be unfenced, and have made no context.
func (t *Talk) Holding() (map[int]int64, error) {
	if err := t.Say("processes"); err != nil {
		return nil, err
	}
	all := map[int]int64{}
	for {
		l, err := t.Hear()
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(string(l), "processes ") {
			if !l.Has("ok") {
				return nil, fmt.Errorf("NVML: %s", l)
			}
			return all, nil
		}
		var pid int
		var bytes int64
		if _, err := fmt.Sscanf(string(l), "process %d %d", &pid, &bytes); err != nil {
			return nil, fmt.Errorf("NVML: %q: %w", l, err)
		}
		all[pid] = bytes
	}
}

// Completed runs one greedy tenant in each region (empty: unfenced), all at once, and returns how many kernels each had
// done in its time, for each second. Kernels have the given blocks; how is eager, ex, coop or graph.
func (m *Machine) Completed(ctx context.Context, regions []string, seconds, blocks int, how string) ([]float64, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	talks := make([]*Talk, len(regions))
	for i, region := range regions {
		t, err := m.Talk(ctx, region)
		if err != nil {
			return nil, err
		}
		defer t.Kill()
		talks[i] = t
		if l, err := t.Do("launch 1 1"); err != nil || !l.Has("ok") {
			return nil, fmt.Errorf("greedy tenant %d does not start: %s (%v)", i, l, err)
		}
	}
	for _, t := range talks {
		if err := t.Say(fmt.Sprintf("greedy %d %d %s", seconds, blocks, how)); err != nil {
			return nil, err
		}
	}
	counts := make([]float64, len(talks))
	for i, t := range talks {
		l, err := t.Hear()
		if err != nil || !l.Has("ok") {
			return nil, fmt.Errorf("greedy tenant %d: %s (%v)", i, l, err)
		}
		counts[i] = float64(l.Number("completed")) / float64(l.Number("ns")) * 1e9
	}
	return counts, nil
}
