package nvml

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fairslice/nodes/fgpu/simdriver"
)

// program is a running CUDA program of the simulated driver (simdriver/testdata/holder.c).
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Writer
	lines *bufio.Reader
}

func compileHolder(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "holder")
	if out, err := exec.Command("cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o", path, "../fgpu/simdriver/testdata/holder.c").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	return path
}

// hold starts the program, in a group of cgroup v2 unless that is "", and checks that CUDA has started in it.
func hold(t *testing.T, holder, group string, env ...string) *program {
	t.Helper()
	script := `exec "$0" "$1"`
	if group != "" {
		script = `echo $$ > "$2/cgroup.procs" && ` + script
	}
	cmd := exec.Command("sh", "-c", script, holder, filepath.Join(driverDir, "libcuda.so.1"), group)
	cmd.Env = append(os.Environ(), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &program{t, cmd, in, bufio.NewReader(out)}
	t.Cleanup(p.kill)
	if got := p.read(); got != "0" {
		t.Fatalf("cuInit: %s", got)
	}
	return p
}

func (p *program) read() string {
	p.t.Helper()
	line, err := p.lines.ReadString('\n')
	if err != nil {
		p.t.Fatalf("program: %v", err)
	}
	return strings.TrimSpace(line)
}

func (p *program) ask(command string) string {
	p.t.Helper()
	fmt.Fprintln(p.in, command)
	return p.read()
}

func (p *program) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// What a program is given of a MIG instance by CUDA is what NVML says of the instance.
func TestProgramInAnInstance(t *testing.T) {
	t.Setenv(simdriver.MIGVar, "0:3g.4gb,2g.2gb")
	node(t, "1x8GiB", "n1")
	l := open(t)
	list, err := l.Instances(devices(t, l)[0].UUID)
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	holder := compileHolder(t)
	first := hold(t, holder, "", "CUDA_VISIBLE_DEVICES="+list[0].UUID)
	second := hold(t, holder, "", "CUDA_VISIBLE_DEVICES="+list[1].UUID)
	for _, c := range []struct {
		p    *program
		want string
	}{{first, "42 4096 4032"}, {second, "28 2048 1984"}} { // a context takes 64 MiB
		if got := c.p.ask("sms") + " " + c.p.ask("total") + " " + c.p.ask("fill 64"); got != c.want {
			t.Errorf("SMs, memory, and what can be had of it: %s, want %s", got, c.want)
		}
	}
	third := hold(t, holder, "", "CUDA_VISIBLE_DEVICES="+list[0].UUID)
	if got := third.ask("fill 64"); got != "2" {
		t.Errorf("in a full instance: %s, want CUDA_ERROR_OUT_OF_MEMORY", got)
	}
	for i, p := range []*program{first, second} {
		u, err := l.Usage(list[i].UUID)
		if err != nil || u.MemoryUsed != list[i].Memory {
			t.Errorf("instance %d: %+v, %v", i, u, err)
		}
		if got, err := l.Processes(list[i].UUID); err != nil || len(got) != 1 || got[0] != (Process{p.cmd.Process.Pid, list[i].Memory}) {
			t.Errorf("instance %d: %v, %v", i, got, err)
		}
	}
	if got, err := l.Processes(list[0].Parent); err != nil || len(got) != 2 {
		t.Errorf("on the GPU: %v, %v", got, err)
	}
	first.kill()
	if u, err := l.Usage(list[0].UUID); err != nil || u.MemoryUsed != 0 {
		t.Errorf("after its end: %+v, %v", u, err)
	}
}

// The driver holds all processes of a group together to its limit.
func TestProgramsInALimitedGroup(t *testing.T) {
	dir := group(t)
	state := node(t, "1x8GiB", "n1")
	if err := simdriver.SetMemoryLimits(state, true); err != nil {
		t.Fatal(err)
	}
	l := open(t)
	uuid := devices(t, l)[0].UUID
	if err := l.MemoryLimits().Set(dir, uuid, 0, gib); err != nil {
		t.Fatal(err)
	}
	holder := compileHolder(t)
	// Cleanups run last first: its members have ended when the group is removed.
	first := hold(t, holder, dir)
	if got := first.ask("fill 64"); got != "960" { // 1 GiB without its context
		t.Errorf("the first has %s MiB", got)
	}
	if got := hold(t, holder, dir).ask("fill 64"); got != "2" { // CUDA_ERROR_OUT_OF_MEMORY
		t.Errorf("a second: %s", got)
	}
	if got := hold(t, holder, "").ask("fill 64"); got != "7104" { // 8 GiB - 1 GiB - 64 MiB
		t.Errorf("one outside: %s", got)
	}
	if got, err := l.MemoryLimits().Get(dir, uuid); err != nil || got != (Limits{0, gib, gib}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := l.MemoryLimits().Clear(dir, uuid); err != nil {
		t.Fatal(err)
	}
}
