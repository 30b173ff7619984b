package sif

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sylabs/sif/v2/pkg/sif"
)

// launchScript is what the kernel runs when somebody executes an image file; Apptainer installs a program of this name.
const launchScript = "#!/usr/bin/env run-singularity\n"

// squash packs a directory and makes a SIF file of it. newest is the time of its newest file: with it as the time of everything
// that has none of its own, the same files give the same bytes.
func squash(ctx context.Context, work *workspace, root, dst string, newest int64, meta inspectData, o Options) (Info, error) {
	packed := filepath.Join(work.path, "root.sqfs")
	args := []string{"mksquashfs", root, packed, "-all-root", "-no-xattrs", "-noappend", "-no-progress", "-comp", "gzip"}
	if o.Processors > 0 {
		args = append(args, "-processors", fmt.Sprint(o.Processors))
	}
	stop := watch(ctx, o.progress(StageSquash, 0), func() int64 { return fileSize(packed) })
	// With SOURCE_DATE_EPOCH, no time is later.
	_, err := run(ctx, command{args: args, env: []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", newest)}, hold: []*os.File{work.lock}})
	stop()
	if err != nil {
		return Info{}, err
	}
	t, err := newTarget(dst)
	if err != nil {
		return Info{}, err
	}
	defer t.discard()
	if err := writeSIF(t.File, packed, time.Unix(newest, 0), meta, o.Arch); err != nil {
		return Info{}, fmt.Errorf("write %s: %w", dst, err)
	}
	return t.commit(ctx, nil, o.Mode)
}

// writeSIF writes the two parts of an image: what 'apptainer inspect' shows, and the squashfs.
func writeSIF(out *os.File, packed string, created time.Time, meta inspectData, arch string) error {
	in, err := os.Open(packed)
	if err != nil {
		return err
	}
	defer in.Close()
	text, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	inspect, err := sif.NewDescriptorInput(sif.DataGenericJSON, bytes.NewReader(text), sif.OptObjectName(inspectName))
	if err != nil {
		return err
	}
	system, err := sif.NewDescriptorInput(sif.DataPartition, in, sif.OptObjectName("root.sqfs"),
		sif.OptPartitionMetadata(sif.FsSquash, sif.PartPrimSys, arch))
	if err != nil {
		return err
	}
	_, err = sif.CreateContainer(out, sif.OptCreateWithCloseOnUnload(false), sif.OptCreateWithLaunchScript(launchScript),
		sif.OptCreateWithID(uuidNil), sif.OptCreateWithTime(created), sif.OptCreateWithDescriptors(inspect, system))
	return err
}

// uuidNil says that a file has no number of its own; its digest names it.
const uuidNil = "00000000-0000-0000-0000-000000000000"

func fileSize(name string) int64 {
	st, err := os.Lstat(name)
	if err != nil {
		return 0
	}
	return st.Size()
}

// treeSize is the size of all files below a directory that others write to.
func treeSize(dir string) int64 {
	var n int64
	// What vanishes meanwhile does not count.
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if st, err := d.Info(); err == nil && st.Mode().IsRegular() {
			n += st.Size()
		}
		return nil
	})
	return n
}

// watch tells p once a second how much there is, until stop is called, which waits.
func watch(ctx context.Context, p *progress, size func() int64) (stop func()) {
	if p.tell == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				p.add(size() - p.done)
			}
		}
	}()
	return func() {
		cancel()
		<-done
		p.add(size() - p.done)
	}
}
