package apptainer

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestCheckImage(t *testing.T) {
	whole, err := os.ReadFile(real.image)
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckImage(real.image); err != nil {
		t.Errorf("a good image: %v", err)
	}

	changed := func(at int, value uint64) []byte {
		b := append([]byte(nil), whole...)
		binary.LittleEndian.PutUint64(b[at:], value)
		return b
	}
	table := int(binary.LittleEndian.Uint64(whole[sifFreeAt+16:]))
	noPartition := append([]byte(nil), whole...)
	noPartition[table+sifDescUsedAt] = 0

	dir := t.TempDir()
	for _, c := range []struct {
		name    string
		content []byte
		says    string
	}{
		{"empty", nil, "only 0 bytes"},
		{"shorter than a header", whole[:100], "only 100 bytes"},
		{"a shell script", []byte(strings.Repeat("#!/bin/sh\n", 100)), "does not begin like one"},
		{"a bare squashfs", append([]byte("hsqs"), make([]byte, 4096)...), "does not begin like one"},
		{"cut off in the table", whole[:table+100], "cut off"},
		{"cut off in the data", whole[:len(whole)/2], "cut off"},
		{"the last byte missing", whole[:len(whole)-1], "cut off"},
		{"a huge data size", changed(sifFreeAt+40, 1<<63-1), "cut off"},
		{"a negative table offset", changed(sifFreeAt+16, 1<<63), "damaged"},
		{"more descriptors than the table holds", changed(sifFreeAt+8, 1<<40), "damaged"},
		{"a partition beyond the file", changed(table+sifDescPlaceAt+8, 1<<40), "part 1 of it is cut off"},
		{"no partition", noPartition, "no file system"},
	} {
		p := filepath.Join(dir, "image.sif")
		if err := os.WriteFile(p, c.content, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := CheckImage(p); !errors.Is(err, ErrImageCorrupt) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), p) {
			t.Errorf("%s: %v; want %q", c.name, err, c.says)
		}
	}

	if err := CheckImage(filepath.Join(dir, "none.sif")); !errors.Is(err, ErrImageMissing) {
		t.Errorf("a missing file: %v", err)
	}
	if err := CheckImage(dir); !errors.Is(err, ErrImageCorrupt) {
		t.Errorf("a directory: %v", err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := CheckImage(fifo); !errors.Is(err, ErrImageCorrupt) {
		t.Errorf("a named pipe: %v", err)
	}
	// Root may read every file; what nobody may read is a loop of links.
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	if err := CheckImage(loop); !errors.Is(err, ErrImageUnreadable) {
		t.Errorf("an unreadable file: %v", err)
	}
}

// What we call corrupt, Apptainer cannot run either, and the job is seen not to have started.
func TestCorruptImageDoesNotStart(t *testing.T) {
	whole, err := os.ReadFile(real.image)
	if err != nil {
		t.Fatal(err)
	}
	asUsers(t, func(t *testing.T, u testUser) {
		dir := u.dir(t)
		for name, content := range map[string][]byte{"cut": whole[:len(whole)/2], "garbage": []byte(strings.Repeat("garbage\n", 1000))} {
			p := filepath.Join(dir, name+".sif")
			if err := os.WriteFile(p, content, 0o644); err != nil {
				t.Fatal(err)
			}
			r := u.run(t, Options{Image: p}, shell("echo hi"))
			if r.started || r.reason != "" || r.state.ExitCode() != 255 || r.stdout != "" || r.stderr == "" {
				t.Errorf("%s: started %v, %v, %q, %q", name, r.started, r.state, r.stdout, r.stderr)
			}
		}
	})
}

func TestFind(t *testing.T) {
	if p, err := Find(real.binary); err != nil || p != real.binary {
		t.Errorf("Find(%s) = %q, %v", real.binary, p, err)
	}
	for _, missing := range []string{"/no/such/apptainer", "no-such-apptainer"} {
		if _, err := Find(missing); err == nil || !strings.Contains(err.Error(), "etc/setup.sh") || !strings.Contains(err.Error(), missing) {
			t.Errorf("Find(%s): %v", missing, err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Find(""); err == nil || !strings.Contains(err.Error(), "etc/setup.sh") {
		t.Errorf("Find with nothing in PATH: %v", err)
	}
}
