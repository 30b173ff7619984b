package fgpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestStatSurvivesAnyName(t *testing.T) {
	rest := " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 3 18 4711 20 21"
	for _, name := range []string{"cat", "a b", ")", "x) Z 1 (", "tab\tline\nbreak", "", strings.Repeat(")", 15)} {
		st, err := parseStat("42 (" + name + ")" + rest)
		if err != nil || st != (stat{'S', 3, 4711}) {
			t.Errorf("%q: %+v, %v", name, st, err)
		}
	}
	for _, bad := range []string{"", "42", "42 (x)", "42 (x) S 1 2", "42 (x)" + strings.Replace(rest, "4711", "-1", 1),
		"42 (x)" + strings.Replace(rest, " 3 18", " x 18", 1), "42 (x)" + strings.Replace(rest, "S", "SS", 1)} {
		if st, err := parseStat(bad); err == nil {
			t.Errorf("%q: %+v, want an error", bad, st)
		}
	}
}

func FuzzStat(f *testing.F) {
	f.Add("42 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 3 18 4711 20 21")
	f.Add(") ) ) ")
	f.Add("\x80 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0")
	f.Fuzz(func(t *testing.T, text string) {
		st, err := parseStat(text)
		if err != nil {
			return
		}
		again, err := parseStat(fmt.Sprintf("1 (%s) %c 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 %d 18 %d", strings.ReplaceAll(text, ")", ""), st.state, st.threads, st.start))
		if err != nil || again != st {
			t.Errorf("%q: %+v, then %+v, %v", text, st, again, err)
		}
	})
}

func TestAliveIsTheSameProcess(t *testing.T) {
	var p Processes
	start, err := p.Start(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !p.Alive(os.Getpid(), start) {
		t.Error("this process is not alive")
	}
	if !p.Alive(os.Getpid(), start|1<<50) {
		t.Error("more than a slot keeps was compared")
	}
	if p.Alive(os.Getpid(), start+1) {
		t.Error("an earlier process of this id is alive")
	}
	if p.Alive(maxPID, start) {
		t.Error("a process that is not there is alive")
	}
	if _, err := p.Start(maxPID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("start of no process: %v", err)
	}
}

// A process that was killed and not waited for is a zombie: ended.
func TestAZombieHasEnded(t *testing.T) {
	var p Processes
	cmd := exec.Command("sh", "-c", "kill -9 $$")
	out, err := cmd.StdoutPipe() // reads to its end only when the process has closed its files
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	start, err := p.Start(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err == nil {
		t.Fatal("the shell wrote something")
	}
	for { // its files are closed some instructions before it is a zombie
		st, err := p.stat(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if st.state == 'Z' {
			break
		}
	}
	if p.Alive(cmd.Process.Pid, start) {
		t.Error("a zombie is alive")
	}
	cmd.Wait()
	if p.Alive(cmd.Process.Pid, start) {
		t.Error("alive after its end")
	}
}

// A program whose first thread ends lives on in the others, with all its memory, though it looks like a zombie.
func TestAProgramWithoutItsFirstThreadIsAlive(t *testing.T) {
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "lead.c"), filepath.Join(dir, "lead")
	if err := os.WriteFile(source, []byte(`
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *other(void *leader) {
	pthread_join(*(pthread_t *)leader, 0);
	puts("led"); fflush(stdout);
	return (void *)(long)getchar();
}
int main(void) {
	static pthread_t leader;
	pthread_t t;
	leader = pthread_self();
	if (pthread_create(&t, 0, other, &leader)) return 1;
	pthread_exit(0);
}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-pthread", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	cmd := exec.Command(binary)
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
	defer cmd.Wait()
	defer stdin.Close()
	if _, err := stdout.Read(make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	var p Processes
	for {
		st, err := p.stat(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if st.state == 'Z' {
			break
		}
	}
	start, err := p.Start(cmd.Process.Pid)
	if err != nil || !p.Alive(cmd.Process.Pid, start) {
		t.Errorf("ended, though a thread of it runs: %v", err)
	}
}
