package apptainer

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// compile builds a C program or library into dir.
func compile(t *testing.T, dir, name, source string, flags ...string) string {
	t.Helper()
	out := filepath.Join(dir, name)
	cmd := exec.Command("cc", append([]string{"-O1", "-o", out, "-x", "c", "-"}, flags...)...)
	cmd.Stdin = strings.NewReader(source)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, text)
	}
	return out
}

// The library and the probe of this test stand for the real ones: what matters here is whether enter finds out.
const (
	testLibrary = `int preloaded(void) { return 1; }`
	testProbe   = `#include <stdio.h>
int preloaded(void) __attribute__((weak));
int main(void) { if (preloaded && preloaded()) return 0; puts("the library is not loaded"); return 1; }`
)

func TestFenceIsProvenBeforeTheJobStarts(t *testing.T) {
	dir, err := os.MkdirTemp(real.dir, "fence-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	library := compile(t, dir, "lib.so", testLibrary, "-shared", "-fPIC", "-nostdlib")
	probe := compile(t, dir, "probe", testProbe, "-fPIE", "-pie", "-rdynamic")
	// One that needs a C library newer than any.
	versions := filepath.Join(dir, "versions")
	if err := os.WriteFile(versions, []byte("GLIBC_9.9 { global: future; };\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	future := compile(t, dir, "libfuture.so", `void future(void) {}`, "-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libc.so.6", "-Wl,--version-script="+versions)
	tooNew := compile(t, dir, "new.so", `void future(void); int preloaded(void) { future(); return 1; }`, "-shared", "-fPIC", "-nostdlib", "-x", "none", future)
	static := filepath.Join(real.dir, "static.sif")
	if out, err := exec.Command("../../etc/image.sh", "--no-libc", "static", static).CombinedOutput(); err != nil {
		t.Fatalf("make the image: %v: %s", err, out)
	}
	const inside = "/.fairslice/fgpu/lib.so"
	preload := filepath.Join(dir, "preload")
	if err := os.WriteFile(preload, []byte(inside+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name    string
		image   string
		library string
		preload string
		probe   string
		ignore  bool // start also without
		proof   Proof
		reason  string
		starts  bool
	}{
		{name: "in place", library: library, preload: preload, probe: probe, proof: Proven, starts: true},
		{name: "image without a C library", image: static, library: library, preload: preload, probe: probe, proof: ImageCannot, reason: "no loader of glibc"},
		{name: "the same, and the queue allows it", image: static, library: library, preload: preload, probe: probe, ignore: true, proof: ImageCannot, reason: "no loader of glibc", starts: true},
		{name: "C library too old", library: tooNew, preload: preload, probe: probe, proof: ImageCannot, reason: "does not load the fence"},
		{name: "no preload file", library: library, probe: probe, proof: Broken, reason: "/etc/ld.so.preload in the container does not name " + inside},
		{name: "no probe", library: library, preload: preload, proof: Broken, reason: "the probe of the fence is not in the container"},
		{name: "what is broken is not allowed by the queue", library: library, preload: preload, ignore: true, proof: Broken, reason: "the probe of the fence is not in the container"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			asUsers(t, func(t *testing.T, u testUser) {
				work := u.dir(t)
				result := filepath.Join(work, "fence")
				o := Options{Image: c.image, Binds: []Bind{{Source: work}}}
				for _, b := range []Bind{{c.library, inside, true}, {c.preload, "/etc/ld.so.preload", true}, {c.probe, "/.fairslice/fgpu/probe", true}} {
					if b.Source != "" {
						o.Binds = append(o.Binds, b)
					}
				}
				s := shell("echo the job runs")
				s.Fence = Fence{Probe: "/.fairslice/fgpu/probe", Library: inside, Result: result, Optional: c.ignore}
				r := u.run(t, o, s)
				text, err := os.ReadFile(result)
				if err != nil {
					t.Fatalf("no proof: %v; the run said %q %q", err, r.stdout, r.stderr)
				}
				proof, reason := ParseProof(string(text))
				if proof != c.proof || !strings.Contains(reason, c.reason) {
					t.Errorf("got %s %q, want %s %q", proof, reason, c.proof, c.reason)
				}
				if started := r.stdout == "the job runs\n"; started != c.starts || r.started != c.starts {
					t.Errorf("started %v (told %v), want %v: %q %q", started, r.started, c.starts, r.stdout, r.stderr)
				}
			})
		})
	}
}

func TestParseProof(t *testing.T) {
	for text, want := range map[string]Proof{"proven\n": Proven, "image\nno libc": ImageCannot, "broken\nx": Broken, "": Broken, "proven": Broken, "provenance\n": Broken, "\nproven\n": Broken} {
		if got, _ := ParseProof(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func FuzzParseProof(f *testing.F) {
	for _, s := range []string{"proven\n", "image\nno libc", "broken", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		proof, _ := ParseProof(text)
		if proof == Proven && !strings.HasPrefix(text, "proven\n") {
			t.Errorf("%q is taken for a proof", text)
		}
	})
}
