package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/archive"
)

// The fake's database has one job until it is purged, and remembers what was asked.
type fakeArchive struct {
	calls  []string
	sum    string // of what left
	broken bool   // the export breaks off half-way
	lost   bool   // the answer to a purge gets lost
}

func (f *fake) Export(_ context.Context, before string, keep bool, w io.Writer) error {
	f.archive.calls = append(f.archive.calls, "export")
	if f.err != nil {
		return f.err
	}
	var b bytes.Buffer
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a, err := archive.NewWriter(&b, archive.Header{Cluster: "c1", Before: at, First: at, Last: at, Counts: archive.Counts{History: 1}})
	if err != nil {
		return err
	}
	if err := a.Add(archive.History, []byte(`{"job":1}`)); err != nil {
		return err
	}
	if _, err := a.Close(); err != nil {
		return err
	}
	data := b.Bytes()
	if f.archive.broken {
		data = data[:len(data)/2]
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	if f.archive.broken {
		return errors.New("the connection broke")
	}
	return nil
}

func (f *fake) Purge(_ context.Context, before, sum string) (*pb.ArchiveResponse, error) {
	f.archive.calls = append(f.archive.calls, "purge "+before)
	again := f.archive.sum == sum
	f.archive.sum = sum
	if f.archive.lost {
		return nil, wire.Errorf(wire.Unavailable, "the answer got lost")
	}
	return &pb.ArchiveResponse{Jobs: 1, Again: again, Since: time.Date(2026, 3, 18, 1, 0, 0, 0, time.UTC).UnixNano()}, f.err
}

func (f *fake) Restore(_ context.Context, sum string, from io.Reader) (*pb.ArchiveResponse, error) {
	f.archive.calls = append(f.archive.calls, "restore")
	r, err := archive.NewReader(from)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for err == nil {
		_, err = r.Next()
	}
	if err != io.EOF || r.Sum() != sum {
		return nil, wire.Errorf(wire.Invalid, "%v, sum %q, want %q", err, r.Sum(), sum)
	}
	again := f.archive.sum == ""
	f.archive.sum = ""
	return &pb.ArchiveResponse{Jobs: 1, Again: again, Since: time.Date(2026, 3, 18, 1, 0, 0, 0, time.UTC).UnixNano()}, f.err
}

func (f *fake) called(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(f.archive.calls, ", "); got != want {
		t.Errorf("asked: %s; want: %s", got, want)
	}
	f.archive.calls = nil
}

const oneJob = "1 job that finished before 2026-01-01 (0 charges, 0 events)"

func TestArchive(t *testing.T) {
	f := &fake{}
	file := filepath.Join(t.TempDir(), "a.zst")
	f.do("badmin archive "+file).has(t, 255, "", "needs a date and the name of one file")
	f.do("badmin archive -before 2026-01-01").has(t, 255, "", "needs a date and the name of one file")
	f.do("badmin archive -before 2026-01-01 a b").has(t, 255, "", "needs a date and the name of one file")
	f.do("badmin restore").has(t, 255, "", "needs the name of one file")
	f.do("badmin restore "+file).has(t, 255, "", "no such file")
	f.called(t, "")

	f.archive.broken = true
	f.do("badmin archive -before 2026-01-01 "+file).has(t, 255, "", "the connection broke")
	if list, err := os.ReadDir(filepath.Dir(file)); err != nil || len(list) > 0 {
		t.Errorf("left %v, %v", list, err)
	}
	f.archive.broken = false
	f.called(t, "export") // and nothing is deleted

	f.archive.lost = true
	f.do("badmin archive -before 2026-01-01 "+file).has(t, 255, "", "the answer got lost\nbadmin: "+file+" is whole; the same command again")
	f.called(t, "export, purge 2026-01-01")
	f.archive.lost = false
	f.do("badmin archive -before 2026-01-01 "+file).has(t, 0, "Already archived on Wed Mar 18 01:00:00 2026: "+oneJob+".\n", "is there already and whole, with "+oneJob)
	f.called(t, "purge 2026-01-01")

	f.do("badmin restore "+file).want(t, 0, "Restored "+oneJob+".\n", "")
	f.do("badmin restore "+file).want(t, 0, "Already restored on Wed Mar 18 01:00:00 2026: "+oneJob+".\n", "")
	f.called(t, "restore, restore")
	f.do("badmin archive -before 2026-01-01 "+file).has(t, 0, "Archived "+oneJob+". badmin restore "+file+" brings them back.\n", "is there already")
	f.called(t, "purge 2026-01-01")
}

func TestArchiveKeep(t *testing.T) {
	f := &fake{}
	file := filepath.Join(t.TempDir(), "a.zst")
	f.do("badmin archive -keep -before 2026-01-01 "+file).want(t, 0, "Copied "+oneJob+". They stay in the database.\n", "")
	f.do("badmin archive -keep -before 2026-01-01 "+file).has(t, 255, "", "is there already, whole, with "+oneJob)
	f.called(t, "export")
	f.err = wire.Errorf(wire.NotFound, "nothing to archive")
	f.do("badmin archive -before 2026-01-01 "+file+"2").want(t, 255, "", "badmin: nothing to archive\n")
}

// A file that is damaged is never sent, never purged by, and never written over.
func TestArchiveRefusesADamagedFile(t *testing.T) {
	f := &fake{}
	file := filepath.Join(t.TempDir(), "a.zst")
	f.do("badmin archive -keep -before 2026-01-01 "+file).has(t, 0, "Copied", "")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f.archive.calls = nil
	f.do("badmin restore "+file).has(t, 255, "", "nothing was restored")
	f.do("badmin archive -before 2026-01-01 "+file).has(t, 255, "", "is not written over")
	f.called(t, "")
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, data) {
		t.Error("it was changed")
	}
}

const archivedLine = "note: jobs that finished before 2026-01-01 are archived; badmin restore FILE brings them back\n"

func TestWhoAsksForArchivedJobsIsTold(t *testing.T) {
	mark := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	f := &fake{history: []*pb.HistoryResponse{{Archived: mark}}, finished: []*pb.FinishedResponse{{Summary: &pb.FinishedSummary{}, Archived: mark}}}
	f.do("bhist -a").want(t, 255, "No matching job found\n", archivedLine)
	f.do("bhist -a -json").has(t, 0, "{", archivedLine)
	f.do("bacct").has(t, 0, "Accounting information", archivedLine)
	f.history[0].Archived, f.finished[0].Archived = 0, 0
	f.do("bhist -a").want(t, 255, "No matching job found\n", "")
	f.do("bacct").has(t, 0, "Accounting information", "")
}
