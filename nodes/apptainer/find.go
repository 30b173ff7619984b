package apptainer

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
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
