package sif

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// ApptainerOptions say how Apptainer is run to make an image.
type ApptainerOptions struct {
	Options
	// As is the user to run it as, who must be able to come to Temp; nil: who we are. What he makes is copied, and judged as
	// any file from outside.
	As *syscall.Credential
	// Cache keeps what was fetched, so that it is not fetched again, also after a failure; a folder of the user. Empty: nothing is kept.
	Cache string
	// Env is added to Apptainer's environment: APPTAINER_DOCKER_USERNAME and the like, proxies.
	Env []string
	// Log gets what Apptainer says, at most LogBytes of it (0: 1 MiB). May be nil.
	Log      io.Writer
	LogBytes int
}

// Pull fetches an image from a registry. plain allows registries without TLS. The squashfs is made by Apptainer, which
// for docker:// images keeps finished layers in the Cache: a pull that is tried again asks for each, and reads only the others.
func Pull(ctx context.Context, u URL, dst string, plain bool, o ApptainerOptions) (Result, error) {
	if again, err := ParseURL(u.String()); err != nil || again != u {
		return Result{}, fmt.Errorf("pull image: %q is no address", u)
	}
	args := []string{"pull"}
	if plain {
		args = append(args, "--no-https")
	}
	if o.Arch != "" {
		args = append(args, "--arch", o.Arch)
	}
	info, err := o.make(ctx, dst, func(image string) []string { return append(args, image, u.String()) })
	if err != nil {
		return Result{}, fmt.Errorf("pull image %s: %w", u, err)
	}
	return Result{Info: info, Made: u.Layered()}, nil
}

// make runs Apptainer in a workspace. args gets the image to make.
func (o ApptainerOptions) make(ctx context.Context, dst string, args func(image string) []string) (info Info, err error) {
	if o.Temp == "" {
		o.Temp = filepath.Dir(dst)
	}
	if o.Temp, err = filepath.Abs(o.Temp); err != nil {
		return Info{}, err
	}
	work, err := newWorkspace(o.Temp)
	if err != nil {
		return Info{}, err
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	dir, err := work.sub("apptainer", o.As)
	if err != nil {
		return Info{}, err
	}
	cache := o.Cache
	if cache == "" {
		cache = filepath.Join(dir, "cache")
	}
	image := filepath.Join(dir, "image.sif")
	c := command{
		args: append([]string{o.program()}, args(image)...),
		// Files of its own are kept here too; nothing is taken from a home directory.
		env: append([]string{"HOME=" + dir, "APPTAINER_CACHEDIR=" + cache, "APPTAINER_TMPDIR=" + dir, "TMPDIR=" + dir}, o.Env...),
		dir: dir, as: o.As, hold: []*os.File{work.lock}, log: o.log(),
	}
	before := treeSize(cache)
	stop := watch(ctx, o.progress(StageFetch, 0), func() int64 {
		n := treeSize(dir)
		if o.Cache != "" {
			n += max(0, treeSize(cache)-before)
		}
		return n
	})
	_, err = run(ctx, c)
	stop()
	if err == nil {
		err = rightArch(cache, cmp.Or(o.Arch, runtime.GOARCH))
	}
	if err != nil {
		return Info{}, err
	}
	return o.take(ctx, image, dst)
}

// rightArch refuses layers for another architecture. Where a registry has one image only, Apptainer takes it, whatever it is for, and
// writes into the SIF file what it was asked for. What it fetched lies in its cache, as an OCI layout; of a cache that has more than this
// image nothing is said.
func rightArch(cache, arch string) error {
	root, err := os.OpenRoot(filepath.Join(cache, "cache", "blob"))
	if errors.Is(err, fs.ErrNotExist) { // no layers: the registry had the file itself
		return nil
	} else if err != nil {
		return err
	}
	defer root.Close()
	b := dirBlobs{root}
	index, err := readBlob(b, "index.json", "")
	if err != nil {
		return err
	}
	var m manifest
	if err := json.Unmarshal(index, &m); err != nil {
		return fmt.Errorf("read what Apptainer has fetched: %w", err)
	}
	if len(m.Manifests) != 1 {
		return nil
	}
	_, _, err = openOCI(b, arch)
	return err
}

// take copies what Apptainer has made. Whoever it ran as could have put anything in its place.
func (o ApptainerOptions) take(ctx context.Context, image, dst string) (Info, error) {
	f, err := os.OpenFile(image, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return Info{}, err
	}
	owner := uint32(os.Geteuid())
	if o.As != nil {
		owner = o.As.Uid
	}
	if sys := st.Sys().(*syscall.Stat_t); !st.Mode().IsRegular() || sys.Uid != owner || sys.Nlink != 1 {
		return Info{}, fmt.Errorf("%s is not the file that Apptainer has made", image)
	}
	if limit := o.Limits.withDefaults().Bytes; st.Size() > limit {
		return Info{}, fmt.Errorf("the image has %d bytes; at most %d are allowed", st.Size(), limit)
	}
	return place(ctx, f, st.Size(), dst, o.Options)
}

func (o Options) program() string {
	if o.Apptainer == "" {
		return "apptainer"
	}
	return o.Apptainer
}

func (o ApptainerOptions) log() io.Writer {
	if o.Log == nil {
		return nil
	}
	l := &cutLog{w: o.Log, left: o.LogBytes}
	if l.left == 0 {
		l.left = 1 << 20
	}
	return l
}

// cutLog passes on the beginning of what is written. A log that cannot be written stops nothing.
type cutLog struct {
	w    io.Writer
	left int
	cut  bool
}

func (l *cutLog) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	_, _ = l.w.Write(p[:n])
	if n < len(p) && !l.cut {
		l.cut = true
		_, _ = io.WriteString(l.w, "\n[the rest of the output is left out]\n")
	}
	return len(p), nil
}
