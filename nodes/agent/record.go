package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fairslice/queue"
)

// stage of an attempt's life, as the spool keeps it.
type stage string

const (
	accepted stage = "accepted"
	starting stage = "starting"
	running  stage = "running"
	ended    stage = "ended"
)

// record is what the spool keeps of an attempt: the assignment, which never changes, and progress.
type record struct {
	Assignment queue.Assignment
	progress
}

// progress is the part of a record that changes.
type progress struct {
	Stage      stage         `json:"stage"`
	BootID     string        `json:"boot_id"`
	Pid        int           `json:"pid,omitempty"`
	Began      time.Time     `json:"began,omitzero"`
	Stdout     string        `json:"stdout,omitempty"`
	Stderr     string        `json:"stderr,omitempty"`
	StdoutFrom int64         `json:"stdout_from,omitempty"` // size of the file before this attempt, for bpeek
	StderrFrom int64         `json:"stderr_from,omitempty"`
	Note       string        `json:"note,omitempty"`
	CWD        string        `json:"cwd,omitempty"`
	Stopped    bool          `json:"stopped,omitempty"`
	StoppedAt  time.Time     `json:"stopped_at,omitzero"`
	StoppedFor time.Duration `json:"stopped_for,omitempty"`
	// RunLimit and MemoryLimit are the assignment's, or what bmod made of them.
	RunLimit    time.Duration `json:"run_limit,omitempty"`
	MemoryLimit int64         `json:"memory_limit,omitempty"`
	// Killing is the first cause that we acted on; it becomes the verdict.
	Killing queue.Verdict `json:"killing,omitempty"`
	Detail  string        `json:"detail,omitempty"`
	Final   *queue.Report `json:"final,omitempty"` // set with stage ended
	// BeganAcked says that batchd knows that the command runs.
	BeganAcked bool `json:"began_acked,omitempty"`

	untold bool // that it runs is only in memory, and in the shepherd's file
}

// howBegan is what batchd is told of the beginning.
func (r *record) howBegan() *queue.Began {
	as := &r.Assignment
	image := as.ImageFile
	if as.Image != nil {
		image = as.Image.Name
	}
	return &queue.Began{Pid: r.Pid, Home: as.Owner.Home, CWD: r.CWD, Stdout: r.Stdout, Stderr: r.Stderr, Image: image, Note: r.Note}
}

func newRecord(as queue.Assignment, bootID string) *record {
	return &record{as, progress{Stage: accepted, BootID: bootID, RunLimit: as.RunLimit, MemoryLimit: as.MemoryLimit}}
}

// spool keeps records in one directory, a file for each attempt: the assignment in the first line,
// then a line for each change, the last of which counts. Appending is much cheaper than replacing a
// file, and a line is one write, which the death of a process cannot tear.
type spool struct{ dir string }

func openSpool(dir string) (*spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	return &spool{dir}, nil
}

func (s *spool) path(key string) string { return filepath.Join(s.dir, key+".json") }

// create writes the record of a new attempt.
func (s *spool) create(key string, r *record) error {
	first, err := json.Marshal(&r.Assignment)
	if err != nil {
		return err
	}
	second, err := json.Marshal(&r.progress)
	if err != nil {
		return err
	}
	err = s.write(key, os.O_CREATE|os.O_EXCL, append(append(first, '\n'), append(second, '\n')...))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		_ = s.remove(key) // the disk is full: do not keep a part
	}
	return err
}

// update appends the progress of an attempt.
func (s *spool) update(key string, r *record) error {
	line, err := json.Marshal(&r.progress)
	if err != nil {
		return err
	}
	return s.write(key, 0, append(line, '\n'))
}

func (s *spool) write(key string, flags int, data []byte) error {
	f, err := os.OpenFile(s.path(key), os.O_WRONLY|os.O_APPEND|flags, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err2 := f.Close(); err == nil {
		err = err2
	}
	return err
}

func (s *spool) remove(key string) error {
	if err := os.Remove(s.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// load reads every record. One that cannot be read is set aside under another name and reported, so
// that a damaged file never keeps the node from starting.
func (s *spool) load() (map[string]*record, []error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, []error{err}
	}
	out := map[string]*record{}
	var bad []error
	for _, e := range entries {
		key, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		r, err := s.read(key)
		if errors.Is(err, errEmpty) {
			_ = s.remove(key)
			continue
		}
		if err == nil && r.Assignment.ID.AttemptKey(r.Assignment.Attempt) != key {
			err = errors.New("its content is about another attempt")
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("spool record %s: %w", e.Name(), err))
			_ = os.Rename(s.path(key), s.path(key)+".damaged")
			continue
		}
		out[key] = r
	}
	return out, bad
}

// errEmpty is a record that noded was killed before writing: the attempt was never taken, and comes again.
var errEmpty = errors.New("it is empty")

// read takes the assignment and the last whole line: only a power failure can leave a torn one behind it.
func (s *spool) read(key string) (*record, error) {
	data, err := os.ReadFile(s.path(key))
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return nil, errEmpty
	}
	lines := bytes.Split(data[:bytes.LastIndexByte(data, '\n')+1], []byte{'\n'})
	if len(lines) < 3 { // two lines, and what is behind the last line break
		return nil, errors.New("it is cut off")
	}
	r := &record{}
	if err := json.Unmarshal(lines[0], &r.Assignment); err != nil {
		return nil, err
	}
	return r, json.Unmarshal(lines[len(lines)-2], &r.progress)
}
