package archive

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Create makes the file by letting write write it, and returns what stands in it, read back. The file has its name only when all
// of it is on disk and sound; until then it is FILE.partial, which a later call begins anew. It is the caller's, and only
// theirs to read: it holds what users typed. A file of this name that is there already is an error.
func Create(file string, write func(io.Writer) error) (Header, string, error) {
	if _, err := os.Lstat(file); err == nil {
		return Header{}, "", fmt.Errorf("make an archive: %s is there already", file)
	}
	partial := file + ".partial"
	if err := fill(partial, write); err != nil {
		_ = os.Remove(partial) // the next try would overwrite it
		return Header{}, "", fmt.Errorf("make an archive: %w", err)
	}
	h, sum, err := Verify(partial)
	if err == nil {
		err = Rename(partial, file)
	}
	if err != nil {
		_ = os.Remove(partial)
		return Header{}, "", fmt.Errorf("make an archive: %w", err)
	}
	return h, sum, nil
}

func fill(file string, write func(io.Writer) error) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Rename gives a file another name, for good: also when the machine loses power now.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Verify reads all of a file, and returns its first line and its sum. Damage is named with its place.
func Verify(file string) (Header, string, error) {
	f, err := os.Open(file)
	if err != nil {
		return Header{}, "", err
	}
	defer f.Close()
	r, err := NewReader(f)
	if err != nil {
		return Header{}, "", fmt.Errorf("%s: %w", file, err)
	}
	defer r.Close()
	for {
		if _, err := r.Next(); err == io.EOF {
			return r.Header(), r.Sum(), nil
		} else if err != nil {
			return Header{}, "", fmt.Errorf("%s: %w", file, err)
		}
	}
}
