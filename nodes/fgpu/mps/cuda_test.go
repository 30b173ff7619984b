package mps

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"fairslice/nodes"
	"fairslice/nodes/fgpu/simdriver"
)

// Programs of the simulated CUDA driver as clients: each is held to the slice that ClientOf gave it.
func TestProgramsAreHeldToTheirSlices(t *testing.T) {
	dir := t.TempDir()
	if err := simdriver.Build(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	holder := filepath.Join(dir, "holder")
	cc := exec.Command("cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o", holder, "../simdriver/testdata/holder.c")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	node, err := simdriver.Env("1x8GiB", "n1") // of which uuid is the GPU
	if err != nil {
		t.Fatal(err)
	}
	node = append(node, simdriver.StateVar+"="+t.TempDir())
	c := config(t)
	c.Binary = filepath.Join(dir, "nvidia-cuda-mps-control")
	d := start(t, c)
	program := func(share int, memory int64) (*process, string) {
		t.Helper()
		client, err := ClientOf([]nodes.Slice{{UUID: uuid, Mode: nodes.ModeMPS, SMShare: share, Memory: memory}}, c.PipeDir)
		if err != nil {
			t.Fatal(err)
		}
		// Outside a container the daemon's directory is where it is.
		env := append(append(client.Env, node...), "CUDA_MPS_PIPE_DIRECTORY="+client.HostDir)
		return begin(t, exec.Command(holder, filepath.Join(dir, "libcuda.so.1")), env)
	}
	quarter, got := program(2500, 2<<30)
	half, gotHalf := program(5000, 4<<30)
	if got != "0" || gotHalf != "0" {
		t.Fatalf("cuInit: %s, %s", got, gotHalf)
	}
	for _, test := range []struct {
		name string
		p    *process
		want string
	}{{"a quarter", quarter, "26 1984 0"}, {"a half", half, "50 4032 0"}} { // SMs in units; a context takes 64 MiB
		if got := test.p.ask("sms") + " " + test.p.ask("fill 64") + " " + test.p.ask("sync"); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	if s := server(t, d); len(s.Clients) != 2 {
		t.Errorf("server %+v", s)
	}
	if err := d.tell(t.Context(), "terminate_client "+strconv.Itoa(server(t, d).Pid)+" "+strconv.Itoa(half.cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	if got := half.ask("sync") + " " + quarter.ask("sync"); got != "810 0" {
		t.Errorf("after the end of one: %s", got)
	}
	kill(t, d)
	if _, err := d.Await(t.Context(), func(s State) bool { return s.Ready && s.Restarts == 1 }); err != nil {
		t.Fatal(err)
	}
	if got := quarter.ask("sync"); got != "806" {
		t.Errorf("after the end of the daemon: %s", got)
	}
	if _, got := program(2500, 2<<30); got != "0" {
		t.Errorf("with the next daemon: %s", got)
	}
}
