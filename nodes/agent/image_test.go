package agent

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"fairslice/images"
	"fairslice/nodes/imagecache"
	"fairslice/queue"
)

// source answers each fetch in one way.
type source func(ctx context.Context) error

func (f source) Fetch(ctx context.Context, _ images.Digest, _ int64, _ io.Writer) error {
	return f(ctx)
}

// imageSite is a node whose images come from files, and a job that needs one.
func imageSite(t *testing.T, files source) (*site, queue.Assignment) {
	s := newSite(t)
	s.stop()
	s.files = files
	s.start()
	as := s.job(1, "true")
	as.Image = &queue.NodeImage{Name: "ada/python:3.11", Digest: images.Digest("sha256:" + strings.Repeat("0a", 32)), Size: 100}
	return s, as
}

func TestAJobCanBeKilledWhileItsImageComes(t *testing.T) {
	s, as := imageSite(t, func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	s.agent.Assign(as)
	s.wait("the fetch is told", func() bool { return len(s.agent.heartbeat().Fetches) == 1 })
	if f := s.agent.heartbeat().Fetches[0]; f.ID != as.ID || f.Attempt != 1 || f.Total != 100 {
		t.Errorf("%+v", f)
	}
	s.agent.Order(queue.Order{ID: as.ID, Attempt: 1, Op: queue.OrderKill, Verdict: queue.TermOwner})
	if r := s.report(1, queue.ReportFailed); !r.JobFault || r.Verdict != queue.TermOwner {
		t.Errorf("%+v", r)
	}
	s.wait("nothing is fetched any more", func() bool { return len(s.agent.heartbeat().Fetches) == 0 })
}

// A node without room is no fault of the job's; an image that is nowhere would fail on every node.
func TestWhoseFaultAMissingImageIs(t *testing.T) {
	for _, row := range []struct {
		err   error
		fault bool
		text  string
	}{
		{syscall.ENOSPC, false, "image ada/python:3.11: the node has no room for the image"},
		{errors.New("the line is cut"), false, "image ada/python:3.11: fetch sha256:0a"},
		{imagecache.ErrGone, true, "image ada/python:3.11: the batch daemon does not have its file"},
	} {
		t.Run(row.err.Error(), func(t *testing.T) {
			s, as := imageSite(t, func(context.Context) error { return row.err })
			s.agent.Assign(as)
			if r := s.report(1, queue.ReportFailed); r.JobFault != row.fault || r.Code != "image" || !strings.HasPrefix(r.Detail, row.text) {
				t.Errorf("%+v", r)
			}
		})
	}
}
