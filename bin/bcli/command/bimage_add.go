package command

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/bin/bcli/show"
	"fairslice/images"
	"fairslice/queue/option"
)

// newImage is what the options say of an image to be.
func (c *call) newImage(p *option.Parsed, name string) (*pb.NewImage, bool) {
	visibility, groups, ok := c.visibility(p)
	return &pb.NewImage{Name: name, Site: p.Has("site"), Replace: p.Has("f"), Visibility: visibility, Groups: groups, Description: p.Last("d")}, ok
}

func addImage(c *call, p *option.Parsed, names []string) int {
	if len(names) != 2 {
		return c.fail("bimage: add needs a name and a file: bimage add python:3.11 python.sif")
	}
	return c.addFile(p, names[0], names[1], names[1])
}

// addFile sends a file or a directory; called is what it is called in the catalogue.
func (c *call) addFile(p *option.Parsed, name, file, called string) int {
	image, ok := c.newImage(p, name)
	if !ok {
		return failed
	}
	path := c.path(file)
	st, err := os.Stat(path)
	if err != nil {
		return c.fail("bimage: " + show.CleanText(err.Error()))
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	a := &adding{c: c, u: u, image: image, called: filepath.Base(called), meter: c.meter()}
	var digest images.Digest
	if st.IsDir() {
		digest, err = a.directory(path)
	} else {
		digest, err = a.file(path, st)
	}
	a.meter.clear()
	if err != nil {
		return c.fail("bimage: " + show.CleanText(reason(err)))
	}
	return c.made(a.meter, func(each func(*pb.ImageProgress) error) error {
		req := &pb.ImportImageRequest{Image: image, Upload: a.upload, Digest: string(digest), Source: a.called}
		for left := sendTries; ; left-- {
			err := u.ImportImage(c.ctx, req, each)
			if left == 1 || !unavailable(err) {
				return err
			}
			a.meter.clear()
			c.say("bimage: " + show.CleanText(err.Error()) + "; it is done again")
		}
	})
}

// unavailable says that batchd is away for a moment.
func unavailable(err error) bool {
	said, ok := errors.AsType[*wire.Error](err)
	return ok && said.Code == wire.Unavailable
}

// made prints what came of a call that makes an image.
func (c *call) made(m *meter, run func(each func(*pb.ImageProgress) error) error) int {
	var last *pb.ImageProgress
	err := run(func(p *pb.ImageProgress) error {
		last = p
		if p.Image == nil {
			m.at(stageWords(p.Stage), p.Done, p.Total)
		}
		return nil
	})
	m.clear()
	switch {
	case err != nil:
		return c.failErr(err)
	case last.GetImage() == nil:
		return c.fail("bimage: the batch daemon has not said what came of it")
	}
	for _, note := range last.Notes {
		c.say("Note: " + show.Clean(note))
	}
	i := last.Image
	c.print("Image " + show.Clean(i.Name) + " is added (" + show.Size(i.Size) + ", " + show.Clean(i.Digest) + "), " + show.Clean(seenBy(i)) + "\n")
	return 0
}

// adding is one file on its way.
type adding struct {
	c      *call
	u      Users
	image  *pb.NewImage
	called string
	upload string
	meter  *meter
}

func (a *adding) begin(size int64, packed bool) (int64, error) {
	return a.u.AddImage(a.c.ctx, &pb.AddImageRequest{Image: a.image, Size: size, Packed: packed, Upload: a.upload})
}

// sendTries is how often a transfer that breaks is gone on with, as long as each try brings something.
const sendTries = 5

// file sends a file from where an earlier try ended: its name, size and time tell whether it is the same.
func (a *adding) file(path string, st os.FileInfo) (images.Digest, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if !st.Mode().IsRegular() {
		return "", fmt.Errorf("%s is neither a file nor a directory", path)
	}
	packed, err := notSIF(f)
	if err != nil {
		return "", err
	}
	a.upload = uploadName(path, st, a.image.Name)
	best := int64(-1)
	for left := sendTries; ; left-- {
		offset, err := a.begin(st.Size(), packed)
		if err != nil {
			return "", err
		}
		if offset > st.Size() {
			offset = 0 // what is there is of another file
		}
		if offset > best {
			best, left = offset, sendTries
		}
		digest, err := a.sendFrom(f, offset, st.Size())
		if left == 1 || !unavailable(err) {
			return digest, err
		}
		a.meter.clear()
		a.c.say("bimage: " + show.CleanText(err.Error()) + "; it goes on from where it was cut")
	}
}

// sendFrom sends what is behind offset, and gives the digest of all.
func (a *adding) sendFrom(f *os.File, offset, size int64) (images.Digest, error) {
	sum := sha256.New()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	if _, err := io.CopyN(sum, f, offset); err != nil {
		return "", err
	}
	if offset < size || size == 0 {
		rest := io.TeeReader(io.LimitReader(f, size-offset), sum)
		counted := &meterReader{r: rest, m: a.meter, done: offset, total: size}
		if err := a.u.UploadImage(a.c.ctx, a.upload, offset, counted); err != nil {
			return "", err
		}
	}
	return images.DigestOf(sum.Sum(nil)), nil
}

func uploadName(path string, st os.FileInfo, name string) string {
	inode := uint64(0)
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		inode = sys.Ino
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d\x00%d\x00%s", path, inode, st.Size(), st.ModTime().UnixNano(), name))
	return hex.EncodeToString(sum[:16])
}

// sifMagicAt and sifMagic are how a SIF file begins.
const (
	sifMagicAt = 32
	sifMagic   = "SIF_MAGIC"
)

func notSIF(f *os.File) (bool, error) {
	head := make([]byte, len(sifMagic))
	if _, err := f.ReadAt(head, sifMagicAt); err != nil && err != io.EOF {
		return false, err
	}
	return string(head) != sifMagic, nil
}

// directory sends a root file system as an archive. It cannot be gone on with.
func (a *adding) directory(path string) (images.Digest, error) {
	a.upload = rand.Text()
	if _, err := a.begin(0, true); err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(a.c.ctx)
	defer cancel()
	r, w := io.Pipe()
	var notes []string
	go func() {
		var err error
		notes, err = tarTree(ctx, path, w)
		_ = w.CloseWithError(err) // nil is the end
	}()
	sum := sha256.New()
	err := a.u.UploadImage(ctx, a.upload, 0, &meterReader{r: io.TeeReader(r, sum), m: a.meter})
	_ = r.CloseWithError(errors.New("the transfer has ended")) // ends the archive, too
	if err != nil {
		return "", err
	}
	a.meter.clear()
	for _, n := range notes {
		a.c.say("bimage: " + show.CleanText(n))
	}
	return images.DigestOf(sum.Sum(nil)), nil
}

func pullImage(c *call, p *option.Parsed, names []string) int {
	if len(names) != 2 {
		return c.fail("bimage: pull needs a name and an address: bimage pull ubuntu:24.04 docker://ubuntu:24.04")
	}
	image, ok := c.newImage(p, names[0])
	if !ok {
		return failed
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	return c.made(c.meter(), func(each func(*pb.ImageProgress) error) error {
		return u.PullImage(c.ctx, &pb.PullImageRequest{Image: image, Url: names[1]}, each)
	})
}

// buildImage runs Apptainer here, as the caller: a definition file is a program.
func buildImage(c *call, p *option.Parsed, names []string) int {
	if len(names) != 2 {
		return c.fail("bimage: build needs a name and a definition file: bimage build tools:1 tools.def")
	}
	if _, err := images.ParseRef(names[0]); err != nil { // before the work
		return c.fail("bimage: " + show.CleanText(err.Error()))
	}
	program, err := exec.LookPath("apptainer")
	if err != nil {
		return c.fail("bimage: there is no apptainer on this host: build the image where there is, and bimage add it")
	}
	dir, err := os.MkdirTemp("", "bimage-")
	if err != nil {
		return c.fail("bimage: " + show.CleanText(err.Error()))
	}
	defer os.RemoveAll(dir)
	// The terminal sends an interrupt to Apptainer, too, which ends; the directory goes then.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupted)
	file := filepath.Join(dir, "image.sif")
	_ = c.out.Flush()
	cmd := exec.Command(program, "build", file, c.path(names[1]))
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.env.Dir, c.env.Environ, c.stdin, c.stderr, c.stderr
	if err := cmd.Run(); err != nil {
		return c.fail("bimage: apptainer build: " + show.CleanText(err.Error()) + ": nothing was added")
	}
	return c.addFile(p, names[0], file, names[1])
}
