package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"fairslice/api/client"
	"fairslice/etc"
	"fairslice/nodes/agent"
	"fairslice/nodes/fgpu/simdriver"
)

// startPinned starts cmd from an OS thread that lives as long as this process: the parent-death
// signal of a child counts the death of the thread that made it (prctl(2)).
func startPinned(cmd *exec.Cmd) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		result <- cmd.Start()
		select {} // never unlocked, never ended
	}()
	return <-result
}

// sampleImage builds the image that the examples run in, once.
func (d *cluster) sampleImage(ctx context.Context) (string, error) {
	file := filepath.Join(d.dir, "images", "sample.sif")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	script := filepath.Join(d.dir, "images", "image.sh")
	if err := os.WriteFile(script, etc.ImageScript, 0o755); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "bash", script, "sample", file).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return file, os.Chmod(file, 0o644)
}

// simLibrary is the simulated driver: the one that was built beside the programs, or one built now.
func (d *cluster) simLibrary(ctx context.Context) (string, error) {
	own := filepath.Join(d.dir, "simdriver")
	for _, dir := range []string{filepath.Join(d.bin, "simdriver"), own} {
		if !slices.ContainsFunc(simdriver.Files(), func(name string) bool { return !fileExists(filepath.Join(dir, name)) }) {
			return filepath.Join(dir, simdriver.LibraryName), nil
		}
	}
	return filepath.Join(own, simdriver.LibraryName), simdriver.Build(ctx, own)
}

func fileExists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}

// runDir makes DIR/run, which leads to a directory on a tmpfs; "" where there is none, or where somebody else has taken its
// name. It is reached through dir, where people look for it.
func runDir(dir string) string {
	const tmpfs = 0x01021994 // TMPFS_MAGIC of statfs(2)
	if os.Geteuid() != 0 {
		return ""
	}
	for _, top := range []string{"/run", "/dev/shm"} {
		var fs syscall.Statfs_t
		if syscall.Statfs(top, &fs) != nil || fs.Type != tmpfs {
			continue
		}
		run := filepath.Join(top, "fairslice-dev-"+shortHash(dir))
		_ = os.Mkdir(run, 0o711) // there already after a crash of this cluster
		var st syscall.Stat_t
		if syscall.Lstat(run, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFDIR || st.Uid != 0 {
			continue
		}
		link := filepath.Join(dir, "run")
		_ = os.Remove(link)
		if os.Symlink(run, link) == nil {
			return link
		}
	}
	return ""
}

// removeRunDir leaves what a node has not reported yet: the next cluster in this state directory does.
func (d *cluster) removeRunDir(names []string) {
	if d.run == "" {
		return
	}
	for _, n := range names {
		if left, _ := filepath.Glob(filepath.Join(d.run, n, "spool", "*.json")); len(left) == 0 {
			_ = os.RemoveAll(filepath.Join(d.run, n))
		}
	}
	if run, err := os.Readlink(d.run); err == nil && os.Remove(run) == nil {
		_ = os.Remove(d.run)
	}
}

// shareOfMemory is what one of n nodes on this machine may promise, bytes.
func shareOfMemory(n int) int64 {
	_, total, _, _ := agent.HostFacts()
	return max(total*8/10/int64(n), 64<<20)
}

func shortHash(s string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	return fmt.Sprintf("%08x", h.Sum32())
}

// countUp is how many nodes of the cluster at socket are up; 0 while it does not answer.
func countUp(ctx context.Context, socket string) int {
	c, err := client.NewUsers(client.Config{Address: "unix://" + socket, Tries: 1})
	if err != nil {
		return 0
	}
	defer c.Close()
	r, err := c.Hosts(ctx)
	if err != nil {
		return 0
	}
	up := 0
	for _, h := range r.Hosts {
		if h.Node.Alive {
			up++
		}
	}
	return up
}
