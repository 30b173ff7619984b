// Package tenant holds a CUDA program that does what its arguments say, and what is needed to run it on this machine
// beside others: it plays the job in tests, demonstrations and measurements of the fence. The program is C (main.c) and uses
// the driver API alone, so that it runs with a real driver and with a simulated one, with the fence and without.
//
// The package makes no decision and is in no daemon. Machine is a machine without containers: where a job's fence is the
// shim preloaded by the environment, and its region a directory. In containers noded does the same by mounts.
package tenant

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"fairslice/nodes/fgpu/abi"
)

//go:embed build.sh *.c *.h
var sources embed.FS

// The programs that Build makes. Linked is linked with libcuda.so.1, as via=link needs. Beside them lies the plug-in that
// via=plugin opens.
const (
	Program = "tenant"
	Linked  = "tenant-linked"
)

// Build compiles the programs into outDir (made if missing) with the C compiler $CC, default cc. No CUDA is needed.
// The sources are in this package: no source tree is needed.
func Build(ctx context.Context, outDir string) error {
	out, err := filepath.Abs(outDir)
	if err != nil {
		return fmt.Errorf("build the tenant: %w", err)
	}
	dir, err := os.MkdirTemp("", "fairslice-tenant-")
	if err != nil {
		return fmt.Errorf("build the tenant: %w", err)
	}
	defer os.RemoveAll(dir)
	for _, from := range []fs.FS{sources, abi.Headers} {
		if err := copyFiles(dir, from); err != nil {
			return fmt.Errorf("build the tenant: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, "sh", filepath.Join(dir, "build.sh"))
	cmd.Env = append(os.Environ(), "OUT="+out, "ABI="+dir)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the tenant (a C compiler is needed): %w\n%s", err, text)
	}
	return nil
}

func copyFiles(to string, from fs.FS) error {
	names, err := fs.Glob(from, "*")
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
