package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairslice/nodes/agent"
)

// The HPC job mapping of dcgm-exporter (--hpc-job-mapping-dir): a directory with a file for each GPU, named by its index, or
// by "index.instance" for a MIG instance; each line is the ID of a job there. Its metrics of that GPU then carry hpc_job.

// jobMapping keeps such a directory. The directory is ours alone: whatever in it has a name of the form above is ours.
// One goroutine at a time may call its methods.
type jobMapping struct {
	dir  string
	log  *slog.Logger
	last map[string]string // what each file holds
}

var (
	mappingName = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	halfWritten = regexp.MustCompile(`^\.[0-9]+(\.[0-9]+)?\.new$`)
)

// openJobMapping removes what an earlier noded left in dir: those jobs may have ended meanwhile.
func openJobMapping(dir string, log *slog.Logger) (*jobMapping, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("dcgm_job_mapping_dir: %w", err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !mappingName.MatchString(e.Name()) && !halfWritten.MatchString(e.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return nil, fmt.Errorf("dcgm_job_mapping_dir: %w", err)
		}
	}
	return &jobMapping{dir: dir, log: log, last: map[string]string{}}, nil
}

// write makes the directory show who has the slices. What could not be written is logged, and tried again by the next call.
func (m *jobMapping) write(held []agent.SliceState) {
	want := mappingFiles(held)
	for name, text := range want {
		if m.last[name] == text {
			continue
		}
		if err := m.replace(name, text); err != nil {
			m.log.Warn("job mapping for dcgm not written", "file", filepath.Join(m.dir, name), "error", err)
			continue
		}
		m.last[name] = text
	}
	for name := range m.last {
		if want[name] != "" {
			continue
		}
		if err := os.Remove(filepath.Join(m.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.log.Warn("job mapping for dcgm not removed", "file", filepath.Join(m.dir, name), "error", err)
			continue
		}
		delete(m.last, name)
	}
}

// follow keeps the directory up to date, looking at each tick, until ctx ends. It then removes its files: nobody keeps them
// up to date any more.
func (m *jobMapping) follow(ctx context.Context, held func() []agent.SliceState, tick <-chan time.Time) {
	defer m.write(nil)
	for {
		m.write(held())
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}

// mappingFiles are the names and the texts. Jobs stand in the order of their numbers; one with several slices of a GPU stands once.
func mappingFiles(held []agent.SliceState) map[string]string {
	jobs := map[string][]agent.SliceState{}
	for _, s := range held {
		name := strconv.Itoa(s.Slice.Index)
		if s.Instance != agent.NoInstance {
			name += "." + strconv.Itoa(s.Instance)
		}
		jobs[name] = append(jobs[name], s)
	}
	files := map[string]string{}
	for name, list := range jobs {
		slices.SortFunc(list, func(a, b agent.SliceState) int {
			return cmp.Or(cmp.Compare(a.Job.Job, b.Job.Job), cmp.Compare(a.Job.Index, b.Job.Index))
		})
		var text strings.Builder
		for i, s := range list {
			if i == 0 || s.Job != list[i-1].Job {
				text.WriteString(s.Job.String() + "\n")
			}
		}
		files[name] = text.String()
	}
	return files
}

// replace writes a file in one step, so that dcgm-exporter never reads half of one. It runs as another user: the file is for all
// to read. What stands in the way of the draft is removed and never followed, wherever a link may lead.
func (m *jobMapping) replace(name, text string) error {
	draft := filepath.Join(m.dir, "."+name+".new")
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(draft, filepath.Join(m.dir, name))
}
