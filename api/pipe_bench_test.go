package api_test

import (
	"io"
	"testing"

	"fairslice/api"
	"fairslice/queue"
)

// BenchmarkDial is the way of a large answer from a program beside a job to a proxy in this process: MB/s.
func BenchmarkDial(b *testing.B) {
	s := newSite(b, api.HubConfig{}, api.Config{})
	a := newAgent("n1")
	part := make([]byte, 32<<10)
	a.pipe = func(o queue.PipeOrder, p queue.Pipe) {
		_ = p.Send(queue.PipeOutput{})
		go func() { _, _ = p.Recv() }()
		for p.Send(queue.PipeOutput{Data: part}) == nil {
		}
	}
	s.node(s.unix(), a)
	s.engine.change(1, func(j *queue.Job) { running(j, 7, queue.Batch) })
	c, err := s.server.Dial(b.Context(), queue.Identity{UID: 7}, "1", queue.DialOrder{Port: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.SetBytes(int64(len(part)))
	for b.Loop() {
		if _, err := io.ReadFull(c, part[:]); err != nil {
			b.Fatal(err)
		}
	}
}
