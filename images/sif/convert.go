package sif

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Options say how an image is made. The zero value is usable.
type Options struct {
	Temp   string // folder to unpack in: private, with room for the unpacked image; empty: that of dst
	Limits Limits
	Arch   string // as Go names it; empty: this machine's

	// Progress hears how far a stage is, in bytes. total is 0 where it cannot be known. It is called often, and from one
	// goroutine at a time.
	Progress func(s Stage, done, total int64)

	Processors int         // of mksquashfs; 0: all
	Mode       fs.FileMode // of the file that is made; 0: 0644
	Apptainer  string      // the program, for Pull; empty: the one in PATH
}

// Stage is a part of the work.
type Stage string

const (
	StageFetch  Stage = "fetch"  // Apptainer fetches
	StageOpen   Stage = "open"   // an archive of layers is unpacked
	StageCheck  Stage = "check"  // read for the first time, and judged
	StageUnpack Stage = "unpack" // read again, and written
	StageSquash Stage = "squash" // mksquashfs; done is what it has written
	StageCopy   Stage = "copy"
)

// Result is a new image.
type Result struct {
	Info
	Notes []string // what was changed on the way, for the user; may be empty
	// Made says that the file was made here, of something else: it carries nobody's signature, whatever it was made of.
	Made bool
}

// Convert makes a SIF file of what lies at src; see Detect. dst is replaced, or left alone on any error. The caller may be root or
// not; what it cannot read is an error. A source that is changed meanwhile can make it fail, and do no other harm.
func Convert(ctx context.Context, src, dst string, o Options) (Result, error) {
	r, err := convert(ctx, src, dst, o)
	if err != nil {
		return Result{}, fmt.Errorf("import %s: %w", src, err)
	}
	return r, nil
}

func convert(ctx context.Context, src, dst string, o Options) (r Result, err error) {
	if o.Arch == "" {
		o.Arch = runtime.GOARCH
	}
	if o.Temp == "" {
		o.Temp = filepath.Dir(dst)
	}
	work, err := newWorkspace(o.Temp)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	s, err := openSource(ctx, src, work, o)
	if err != nil {
		return Result{}, err
	}
	defer s.close()
	if s.kind == SIF {
		if limit := o.Limits.withDefaults().Bytes; s.size > limit {
			return Result{}, fmt.Errorf("it has %d bytes; at most %d are allowed", s.size, limit)
		}
		info, err := place(ctx, s.file, s.size, dst, o)
		return Result{Info: info}, err
	}
	t, labels, err := readLayers(ctx, s, o)
	if err != nil {
		return Result{}, err
	}
	if err := t.runnable(); err != nil {
		return Result{}, err
	}
	meta, err := t.metadata(s.config, labels)
	if err != nil {
		return Result{}, err
	}
	root, err := work.sub("root", nil)
	if err != nil {
		return Result{}, err
	}
	p := o.progress(StageUnpack, s.total())
	newest, err := extract(ctx, t, s.layers, root, p.add)
	if err != nil {
		return Result{}, err
	}
	if !s.config.created.IsZero() {
		newest = max(newest, min(s.config.created.Unix(), 1<<32-1))
	}
	info, err := squash(ctx, work, root, dst, newest, meta, o)
	return Result{Info: info, Notes: t.notes(), Made: true}, err
}

// readLayers makes the tree, and finds the labels that the image has inside.
func readLayers(ctx context.Context, s *source, o Options) (*tree, map[string]string, error) {
	t := newTree(o.Limits, s.kind.layered())
	p := o.progress(StageCheck, s.total())
	var labels map[string]string
	for i, l := range s.layers {
		t.layer = i
		index := -1
		err := l.walk(ctx, t.limits, p.add, func(e entry, r io.Reader) error {
			index++
			if err := t.add(e, index); err != nil {
				return err
			}
			if e.kind == isFile && e.size <= maxMetadata && filepath.Clean(e.name) == labelsFile {
				data, err := io.ReadAll(r)
				if err == nil {
					labels, err = parseLabelsFile(data)
				}
				if err != nil {
					return refused(e.name, "%w", err)
				}
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if t.find(labelsFile) == nil {
		labels = nil // an upper layer has taken it away
	}
	return t, labels, nil
}

// runnable tells a root file system from something else that was packed, most often the folder with it inside.
func (t *tree) runnable() error {
	var program func(n *node) bool
	program = func(n *node) bool {
		if n.kind == isFile && n.mode&0o111 != 0 {
			return true
		}
		for _, child := range n.children {
			if program(child) {
				return true
			}
		}
		return false
	}
	if !program(t.root) {
		return errors.New("not a root file system: there is no program in it")
	}
	if len(t.root.children) == 1 {
		for name, only := range t.root.children {
			if name != "usr" && (only.children["bin"] != nil || only.children["usr"] != nil) {
				return fmt.Errorf("not a root file system: it holds one in the folder %.100q; give what is in it, not the folder", name)
			}
		}
	}
	return nil
}

func (t *tree) notes() []string {
	var notes []string
	if t.setIDs > 0 {
		notes = append(notes, fmt.Sprintf("%d programs lost their set-user-id or set-group-id bit: jobs run without privileges", t.setIDs))
	}
	if t.specials > 0 {
		notes = append(notes, fmt.Sprintf("%d devices, pipes and sockets below /dev, /run and /tmp were left out: jobs get the node's", t.specials))
	}
	return notes
}

// progress counts what is done of a stage. It can be written to, and forgets what is written.
type progress struct {
	tell        func(Stage, int64, int64)
	stage       Stage
	done, total int64
}

func (o Options) progress(s Stage, total int64) *progress {
	p := &progress{o.Progress, s, 0, total}
	p.add(0)
	return p
}

func (p *progress) add(n int64) {
	if p.done += n; p.tell != nil {
		p.tell(p.stage, p.done, p.total)
	}
}

func (p *progress) Write(b []byte) (int, error) {
	p.add(int64(len(b)))
	return len(b), nil
}

// source is what Convert reads.
type source struct {
	kind   Kind
	layers []layer
	config config
	file   *os.File // of a SIF file, or an archive
	size   int64
	root   *os.Root // of a directory
}

func (s *source) total() int64 {
	var n int64
	for _, l := range s.layers {
		n += l.size()
	}
	return n
}

func (s *source) close() {
	if s.file != nil {
		s.file.Close()
	}
	if s.root != nil {
		s.root.Close()
	}
}
