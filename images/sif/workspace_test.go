package sif

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// hold makes a workspace with a tree that is hard to remove, and a new file, in dir, and waits to be killed.
func hold(dir string) {
	w, err := newWorkspace(dir)
	if err == nil {
		err = os.MkdirAll(filepath.Join(w.path, "root/a/b"), 0o755)
	}
	if err == nil {
		err = os.Chmod(filepath.Join(w.path, "root/a"), 0o500)
	}
	if err == nil {
		_, err = newTarget(filepath.Join(dir, "image.sif"))
	}
	fmt.Println("held", err)
	select {}
}

func TestSweep(t *testing.T) {
	dir := openDir(t)
	write(t, dir, "image.sif", []byte("kept"))
	if err := os.Mkdir(filepath.Join(dir, leftover+"just-made"), 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "SIF_TEST_HOLD="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "held <nil>\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := Sweep(dir); err != nil {
		t.Error(err)
	}
	if left := leftovers(t, dir, "image.sif"); len(left) != 2 {
		t.Errorf("what a living process works on was removed: %q", left)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if err := Sweep(dir); err != nil {
		t.Error(err)
	}
	if left := leftovers(t, dir, "image.sif"); len(left) > 0 {
		t.Errorf("what a killed process has left stays: %q", left)
	}
	if err := Sweep(dir); err != nil {
		t.Error("again:", err)
	}
}

// The work can be cancelled at any stage, and leaves nothing.
func TestCancel(t *testing.T) {
	src := write(t, openDir(t), "src", gz(t, packTar(t, busyboxFiles(t)...)))
	stop := errors.New("enough")
	for _, at := range []Stage{StageCheck, StageUnpack, StageSquash} {
		dir := openDir(t)
		ctx, cancel := context.WithCancelCause(context.Background())
		_, err := Convert(ctx, src, filepath.Join(dir, "image.sif"), Options{Progress: func(s Stage, _, _ int64) {
			if s == at {
				cancel(stop)
			}
		}})
		if !errors.Is(err, stop) {
			t.Errorf("cancelled at stage %s: %v", at, err)
		}
		if left := leftovers(t, dir); len(left) > 0 {
			t.Errorf("cancelled at stage %s: left behind: %q", at, left)
		}
		cancel(nil)
	}
}
