package sif

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"fairslice/images"
)

// Info is what a SIF file says of itself, and what it is.
type Info struct {
	Size        int64 // bytes
	Digest      images.Digest
	Arch        string // as Go names it: amd64
	Created     time.Time
	Labels      map[string]string // images.ParseLabels understands them
	Definition  string            // the definition file that it was built from; may be empty
	Signatures  []string          // fingerprints of the keys that it is signed with, "" where there is none; not verified
	Compression string            // of its squashfs
	Files       int               // inodes in it
}

// Inspect checks a SIF file and reads it whole, for its digest. Errors say what is wrong with the file. It starts
// unsquashfs, as who calls, for the labels of a file that has them only inside.
func Inspect(ctx context.Context, path string) (Info, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return Info{}, fmt.Errorf("inspect image: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(reading{ctx, f}, 0, size)); err != nil {
		return Info{}, fmt.Errorf("inspect image %s: %w", path, err)
	}
	info, err := inspect(ctx, f, size)
	if err != nil {
		return Info{}, fmt.Errorf("inspect image %s: %w", path, err)
	}
	info.Digest = images.DigestOf(sum.Sum(nil))
	return info, nil
}

// ReadLabels is Inspect for the labels alone: it does not read the file whole.
func ReadLabels(ctx context.Context, path string) (map[string]string, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, fmt.Errorf("read labels: %w", err)
	}
	defer f.Close()
	info, err := inspect(ctx, f, size)
	if err != nil {
		return nil, fmt.Errorf("read labels of image %s: %w", path, err)
	}
	return info.Labels, nil
}

// inspect is Inspect without the digest.
func inspect(ctx context.Context, f *os.File, size int64) (Info, error) {
	c, err := parse(f, size)
	if err != nil {
		return Info{}, err
	}
	if c.info.Labels != nil {
		return c.info, nil
	}
	data, err := readInside(ctx, f.Name(), c.root.Offset(), labelsFile, maxMetadata)
	if errors.Is(err, errNotInside) {
		return c.info, nil
	}
	if err == nil {
		c.info.Labels, err = parseLabelsFile(data)
	}
	if err != nil {
		return Info{}, fmt.Errorf("its labels (%s): %w", labelsFile, err)
	}
	return c.info, nil
}

// openRegular opens a regular file for reading; a named pipe would wait for ever, a device be anything.
func openRegular(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

// reading stops with the context.
type reading struct {
	ctx context.Context
	f   *os.File
}

func (r reading) ReadAt(p []byte, off int64) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.f.ReadAt(p, off)
}

var errNotInside = errors.New("there is no such file in the image")

// readInside reads one file of the squashfs that begins at offset of the file path.
func readInside(ctx context.Context, path string, offset int64, name string, most int) ([]byte, error) {
	out, err := run(ctx, command{
		args: []string{"unsquashfs", "-no-progress", "-processors", "1", "-data-queue", "8", "-frag-queue", "8",
			"-offset", fmt.Sprint(offset), "-cat", path, name},
		// A squashfs can be made to look as if it needed far more than it has bytes.
		most: most, timeout: time.Minute, memory: 2 << 30,
	})
	var exit *exitError
	if errors.As(err, &exit) && len(out) == 0 && exit.mentions("no matches for", "No such file", "invalid option") {
		return nil, errNotInside
	}
	return out, err
}

// parseLabelsFile reads Apptainer's labels.json: an object of texts. Numbers and booleans, which some tools write, become texts.
func parseLabelsFile(data []byte) (map[string]string, error) {
	var raw map[string]any
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	labels := make(map[string]string, len(raw))
	for key, value := range raw {
		switch v := value.(type) {
		case string:
			labels[key] = v
		case nil:
			labels[key] = ""
		case bool, float64:
			labels[key] = fmt.Sprint(v)
		default:
			return nil, fmt.Errorf("label %.80q is not a text", key)
		}
	}
	return labels, nil
}

// inspectName is the object that 'apptainer inspect' reads.
const inspectName = "inspect-metadata.json"

// inspectData is the part of it that concerns us.
type inspectData struct {
	Data struct {
		Attributes struct {
			Labels      json.RawMessage   `json:"labels,omitempty"`
			Environment map[string]string `json:"environment,omitempty"`
			Runscript   string            `json:"runscript,omitempty"`
		} `json:"attributes"`
	} `json:"data"`
	Type string `json:"type"`
}

func parseInspect(data []byte) (map[string]string, error) {
	var d inspectData
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("%s is not in the form that is known: %w", inspectName, err)
	}
	if len(d.Data.Attributes.Labels) == 0 {
		return nil, nil
	}
	return parseLabelsFile(d.Data.Attributes.Labels)
}
