package sif

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Verify checks the PGP signatures of an image against a file of public keys, as 'apptainer key export' writes it. No
// key server is asked. nil means that the image is signed, each object of it, and unchanged, with one of these keys.
func Verify(ctx context.Context, path, keyring string, o Options) error {
	err := verify(ctx, path, keyring, o)
	if err != nil {
		return fmt.Errorf("verify the signatures of image %s: %w", path, err)
	}
	return nil
}

func verify(ctx context.Context, path, keyring string, o Options) (err error) {
	keys, err := os.ReadFile(keyring)
	if err != nil {
		return err
	}
	// Apptainer takes the folder of its keys for its own, and changes its permissions.
	if o.Temp == "" {
		o.Temp = os.TempDir()
	}
	work, err := newWorkspace(o.Temp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	dir, err := work.sub("keys", nil)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "pgp-public"), keys, 0o600); err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	_, err = run(ctx, command{
		args: []string{o.program(), "verify", "--local", "--all", path},
		env:  []string{"HOME=" + dir, "APPTAINER_KEYSDIR=" + dir},
	})
	return err
}
