package apptainer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
)

// Find returns the absolute path of the apptainer program. An empty path means the one in PATH.
func Find(path string) (string, error) {
	name := path
	if name == "" {
		name = "apptainer"
	}
	p, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		where := name
		if path == "" {
			where = "apptainer in PATH"
		}
		return "", fmt.Errorf("no %s: containers cannot run on this machine; run etc/setup.sh to install Apptainer, "+
			"or name its program in the configuration", where)
	}
	if err != nil {
		return "", fmt.Errorf("use %s to run containers: %w", name, err)
	}
	if p, err = filepath.Abs(p); err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	return p, nil
}

// Version asks the program for its version, such as "1.4.5". It also shows that the program can run at all.
func Version(ctx context.Context, binary string) (string, error) {
	out, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return "", fmt.Errorf("ask %s for its version: %w: %s", binary, err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("ask %s for its version: %w", binary, err)
	}
	version, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "apptainer version ")
	if !ok {
		return "", fmt.Errorf("%s is not Apptainer: it calls itself %q", binary, strings.TrimSpace(string(out)))
	}
	return version, nil
}
