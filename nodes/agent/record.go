package agent

import (
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

// record is what the spool keeps of an attempt.
type record struct {
	Assignment queue.Assignment `json:"assignment"`
	Stage      stage            `json:"stage"`
	BootID     string           `json:"boot_id"`
	Pid        int              `json:"pid,omitempty"`
	Began      time.Time        `json:"began,omitzero"`
	Stdout     string           `json:"stdout,omitempty"`
	Stderr     string           `json:"stderr,omitempty"`
	StdoutFrom int64            `json:"stdout_from,omitempty"` // size of the file before this attempt, for bpeek
	StderrFrom int64            `json:"stderr_from,omitempty"`
	Note       string           `json:"note,omitempty"`
	CWD        string           `json:"cwd,omitempty"`
	Stopped    bool             `json:"stopped,omitempty"`
	StoppedAt  time.Time        `json:"stopped_at,omitzero"`
	StoppedFor time.Duration    `json:"stopped_for,omitempty"`
	// Killing is the first cause that we acted on; it becomes the verdict.
	Killing queue.Verdict `json:"killing,omitempty"`
	Detail  string        `json:"detail,omitempty"`
	Final   *queue.Report `json:"final,omitempty"` // set with stage ended
	// BeganAcked says that batchd knows that the command runs.
	BeganAcked bool `json:"began_acked,omitempty"`
}

// spool keeps records in one directory, a file for each attempt.
type spool struct{ dir string }

func openSpool(dir string) (*spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	return &spool{dir}, nil
}

func (s *spool) path(key string) string { return filepath.Join(s.dir, key+".json") }

// write replaces a record in one step, so that a reader finds the old or the new one, never a part.
func (s *spool) write(key string, r *record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	tmp := s.path(key) + ".new"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, s.path(key))
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
		r := &record{}
		data, err := os.ReadFile(s.path(key))
		if err == nil {
			err = json.Unmarshal(data, r)
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
