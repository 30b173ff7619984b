package sif

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("SIF_TEST_HOLD"); dir != "" {
		hold(dir)
	}
	for _, tool := range []string{"mksquashfs", "unsquashfs", "apptainer", "busybox"} {
		if _, err := exec.LookPath(tool); err != nil {
			fmt.Fprintln(os.Stderr, "these tests make real images, and cannot:", err)
			fmt.Fprintln(os.Stderr, "run etc/setup.sh to install what is missing")
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

func TestConvertForms(t *testing.T) {
	base := packTar(t, busyboxFiles(t)...)
	top := packTar(t, file{"opt/", tar.TypeDir, "", 0}, file{"opt/data", 0, "hello\n", 0o640})
	docker := ociLayout(t, runtime.GOARCH, gz, base, top)
	saved := map[string][]byte{
		"config.json": ociConfig(t, runtime.GOARCH, base, top), "a/layer.tar": base, "b/layer.tar": top,
		"manifest.json": []byte(`[{"Config": "config.json", "RepoTags": ["x:1"], "Layers": ["a/layer.tar", "b/layer.tar"]}]`),
	}
	all := packTar(t, append(busyboxFiles(t), file{"opt/", tar.TypeDir, "", 0}, file{"opt/data", 0, "hello\n", 0o640})...)
	dir := openDir(t)
	unpacked := filepath.Join(dir, "root")
	if err := os.Mkdir(unpacked, 0o755); err != nil {
		t.Fatal(err)
	}
	untar := exec.Command("tar", "-C", unpacked, "-xf", write(t, dir, "root.tar", all))
	if out, err := untar.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, form := range []struct {
		what string
		src  string
		kind Kind
	}{
		{"a directory", unpacked, Directory},
		{"an archive", filepath.Join(dir, "root.tar"), Archive},
		{"one packed with gzip", write(t, dir, "root.tar.gz", gz(t, all)), Archive},
		{"one packed with zstd", write(t, dir, "root.tar.zst", zst(t, all)), Archive},
		{"an OCI layout", writeAll(t, filepath.Join(dir, "oci"), docker), OCIDirectory},
		{"an OCI layout with zstd", writeAll(t, filepath.Join(dir, "ociz"), ociLayout(t, runtime.GOARCH, zst, base, top)), OCIDirectory},
		{"an OCI layout for two architectures", writeAll(t, filepath.Join(dir, "two"), ociIndex(t, zst, map[string][][]byte{runtime.GOARCH: {base, top}, "riscv64": {top}})), OCIDirectory},
		{"an OCI archive", write(t, dir, "oci.tar", tarOf(t, docker)), OCIArchive},
		{"what docker saves", write(t, dir, "docker.tar", tarOf(t, saved)), DockerArchive},
		{"what docker saves, packed", write(t, dir, "docker.tar.gz", gz(t, tarOf(t, saved))), DockerArchive},
	} {
		t.Run(form.what, func(t *testing.T) {
			if kind, err := Detect(context.Background(), form.src, Limits{}); err != nil || kind != form.kind {
				t.Fatalf("%q, %v; want %q", kind, err, form.kind)
			}
			out := openDir(t)
			dst := filepath.Join(out, "image.sif")
			stages := map[Stage]int64{}
			o := Options{Progress: func(s Stage, done, total int64) {
				if done < stages[s] || total > 0 && done > total {
					t.Errorf("%s: %d of %d after %d", s, done, total, stages[s])
				}
				stages[s] = done
			}}
			r, err := Convert(context.Background(), form.src, dst, o)
			if err != nil {
				t.Fatal(err)
			}
			if form.kind == Directory || form.kind == OCIDirectory {
				again, err := Convert(context.Background(), form.src, dst, Options{Temp: openDir(t)})
				if err != nil || again.Digest != r.Digest {
					t.Errorf("again: %s, %v; want the same digest, %s", again.Digest, err, r.Digest)
				}
			}
			if left := leftovers(t, out, "image.sif"); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
			for _, s := range []Stage{StageCheck, StageUnpack, StageSquash} {
				if stages[s] == 0 && (s != StageCheck || form.kind != Directory) { // its files are not read then
					t.Errorf("no progress of stage %s", s)
				}
			}
			info, err := Inspect(context.Background(), dst)
			if err != nil || info.Digest != r.Digest || info.Arch != runtime.GOARCH || info.Files < 10 || info.Compression != "gzip" {
				t.Errorf("%+v, %v; made %+v", info, err, r.Info)
			}
			data, err := os.ReadFile(dst)
			if err != nil || info.Size != int64(len(data)) || info.Digest.Hex() != hexSum(data) {
				t.Errorf("the digest or size is not the file's: %+v, %v", info, err)
			}
			if got := inContainer(t, dst, "exec", dst, "/bin/cat", "/etc/hosts"); got == "" {
				t.Error("the node's /etc/hosts is not seen")
			}
			if got := inContainer(t, dst, "exec", dst, "/bin/stat", "-c", "%a %u %Y", "/opt/data"); got != fmt.Sprintf("640 65534 %d\n", day.Unix()) &&
				got != fmt.Sprintf("640 0 %d\n", day.Unix()) {
				t.Errorf("stat of a file: %q", got)
			}
			if !form.kind.layered() {
				return
			}
			if info.Labels["ai.backend.service-ports"] != "jupyter:http:8091" || info.Labels["fairslice.workdir"] != "/work" {
				t.Errorf("labels %v", info.Labels)
			}
			if form.kind == OCIArchive { // containers take time, and this is the same once more
				return
			}
			if got := inContainer(t, dst, "run", "--cleanenv", dst); got != "it's the command\n" {
				t.Errorf("run: %q", got)
			}
			if got := inContainer(t, dst, "run", "--cleanenv", dst, "other"); got != "it's other\n" {
				t.Errorf("run with an argument: %q", got)
			}
			env := inContainer(t, dst, "exec", "--cleanenv", dst, "/bin/env")
			if !strings.Contains(env, "\nPATH=/opt/it's here:/bin:") /* Apptainer adds its own */ || !strings.Contains(env, "GREETING=a 'b' $c \"d\"\n") {
				t.Errorf("environment:\n%s", env)
			}
			if got := inContainer(t, dst, "inspect", dst); !strings.Contains(got, "jupyter:http:8091") {
				t.Errorf("inspect: %q", got)
			}
		})
	}
}

func TestConvertSIF(t *testing.T) {
	_, made, err := convertTar(t, packTar(t, busyboxFiles(t)...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := openDir(t)
	copied := filepath.Join(dir, "copy.sif")
	r, err := Convert(context.Background(), made, copied, Options{Mode: 0o600})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile(made)
	b, _ := os.ReadFile(copied)
	if !bytes.Equal(a, b) || r.Digest.Hex() != hexSum(a) {
		t.Error("the copy differs")
	}
	if st, err := os.Stat(copied); err != nil || st.Mode() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	// One that is damaged leaves the old one alone.
	if _, err := Convert(context.Background(), write(t, dir, "cut.sif", a[:len(a)-5000]), copied, Options{}); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("a SIF file cut off: %v", err)
	}
	if left := leftovers(t, dir, "copy.sif", "cut.sif"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if c, _ := os.ReadFile(copied); !bytes.Equal(a, c) {
		t.Error("a failed import changed what was there")
	}
}

func TestConvertNotes(t *testing.T) {
	r, dst, err := convertTar(t, packTar(t, append(busyboxFiles(t), file{"bin/su", 0, "#!/bin/sh\n", 0o4755},
		file{"dev/null", tar.TypeChar, "", 0o666}, file{"secret", 0, "x", 0o200})...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Notes) != 2 || !strings.HasPrefix(r.Notes[0], "1 programs lost") || !strings.HasPrefix(r.Notes[1], "1 devices") {
		t.Errorf("notes %q", r.Notes)
	}
	if got := inContainer(t, dst, "exec", dst, "/bin/stat", "-c", "%a", "/bin/su", "/secret"); got != "755\n600\n" {
		t.Errorf("modes %q", got)
	}
}

func TestHardLinksAndDirectories(t *testing.T) {
	dir := openDir(t)
	root := filepath.Join(dir, "root")
	write(t, root, "bin/a", []byte("#!/bin/sh\n"))
	if err := os.Chmod(filepath.Join(root, "bin/a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(root, "bin/a"), filepath.Join(root, "bin/b")); err != nil {
		t.Fatal(err)
	}
	write(t, root, "bytes-\xff", []byte("x")) // a name need not be UTF-8
	dst := filepath.Join(dir, "x.sif")
	if _, err := Convert(context.Background(), root, dst, Options{}); err != nil {
		t.Fatal(err)
	}
	c, f := parts(t, dst)
	defer f.Close()
	out, err := exec.Command("unsquashfs", "-offset", fmt.Sprint(c.root.Offset()), "-lln", dst).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("bytes-\xff")) {
		t.Errorf("%v: %s", err, out)
	}
	for _, line := range strings.Split(string(out), "\n") {
		if len(line) > 1 && strings.ContainsRune("-dl", rune(line[0])) && !strings.Contains(line, " 0/0 ") {
			t.Errorf("not root's: %s", line)
		}
	}
	// A user's link to what only root can read leads nowhere: it stays a link.
	if err := os.Symlink("/etc/shadow", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := Convert(context.Background(), root, dst, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Convert(context.Background(), root, dst, Options{}); err == nil || !strings.Contains(err.Error(), `entry "pipe": a device, named pipe`) {
		t.Errorf("a named pipe: %v", err)
	}
}

func parts(t *testing.T, path string) (contents, *os.File) {
	t.Helper()
	f, size, err := openRegular(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := parse(f, size)
	if err != nil {
		t.Fatal(err)
	}
	return c, f
}
