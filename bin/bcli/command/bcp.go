package command

import (
	"errors"
	"io"
	"strings"

	"fairslice/api/pb"
	"fairslice/bin/bcli/session"
	"fairslice/bin/bcli/show"
	"fairslice/nodes/session/tree"
	"fairslice/queue"
	"fairslice/queue/option"
)

func bcpCommand() *command {
	return &command{run: bcp, Command: option.Command{
		Name: "bcp", Usage: "[-r] source ... destination",
		Summary: "copies files to or from a running job, as it sees them: job:path is there, other names are here",
		Example: "bcp data.csv 1234:/tmp/\nbcp -r 1234:results .\nbcp '1235[3]:model.pt' '1235[3]:log' kept/",
		Options: []option.Option{
			{Name: "r", Help: "directories, with all that is in them; symbolic links stay links"},
			{Name: "q", Help: "no progress"},
		},
	}}
}

// place is one operand: a path here (job ""), or beside a job.
type place struct{ job, path string }

// parsePlace reads "path" or "job:path". As with scp, a name here that has a colon is written with a slash before it: ./a:b.
func parsePlace(s string) place {
	job, path, ok := strings.Cut(s, ":")
	if !ok || job == "" || strings.Contains(job, "/") {
		return place{path: s}
	}
	if path == "" {
		path = "."
	}
	return place{job, path}
}

// bcp exits with 0 when all was copied, 1 when something was not, and 255 when it could not begin or the connection broke.
func bcp(c *call, p *option.Parsed) int {
	if len(p.Operands) < 2 {
		return c.fail("bcp: name a source and a destination: bcp file job:path, or bcp job:path .")
	}
	var sources []place
	for _, o := range p.Operands {
		if o == "" {
			return c.fail("bcp: an empty name")
		}
		sources = append(sources, parsePlace(o))
	}
	last := len(sources) - 1
	to := sources[last]
	sources = sources[:last]
	job := to.job + sources[0].job
	for _, s := range sources {
		if (s.job == "") == (to.job == "") || s.job != sources[0].job {
			return c.fail("bcp: one side is here, and the other one is one job: bcp file job:path, or bcp job:path .")
		}
	}
	if !c.legal([]string{job}) {
		return failed
	}
	t := &transfer{c: c, recursive: p.Has("r"), sources: sources, to: to.path,
		into: len(sources) > 1 || strings.HasSuffix(to.path, "/")}
	order := &pb.CopyOrder{Recursive: t.recursive, Into: t.into}
	if to.job != "" {
		order.To = []byte(to.path)
	} else {
		for _, s := range sources {
			order.Paths = append(order.Paths, []byte(s.path))
		}
	}
	if !p.Has("q") && session.TerminalOf(c.stderr) != nil {
		t.progress = &progress{w: c.stderr, now: c.env.Now}
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	stream, err := u.Exec(c.ctx, &pb.ExecOpen{Id: job, What: &pb.ExecOpen_Copy{Copy: order}})
	if err != nil {
		return c.failErr(err)
	}
	t.stream = stream
	defer stream.Close()
	if to.job != "" {
		return t.send()
	}
	return t.receive()
}

// transfer is one copy under way.
type transfer struct {
	c         *call
	stream    session.Beside
	sources   []place
	to        string
	into      bool
	recursive bool
	progress  *progress
	missed    bool // something was not copied
}

func (t *transfer) options() tree.Options {
	return tree.Options{Recursive: t.recursive, Into: t.into, Note: t.note, Each: t.progress.each}
}

func (t *transfer) note(line string) {
	t.missed = true
	t.progress.clear()
	t.c.say("bcp: " + show.CleanText(line))
}

func (t *transfer) status() int {
	t.progress.done()
	if t.missed {
		return 1
	}
	return 0
}

// send copies from here. What is said there comes while it sends.
func (t *transfer) send() int {
	first, err := t.stream.Recv()
	if err != nil {
		return t.c.failErr(err)
	}
	notes := make(chan string)
	ended := make(chan error, 1)
	go func() {
		defer close(notes)
		for m := first; ; {
			if len(m.Err) > 0 {
				notes <- string(m.Err)
			}
			if m.Exited {
				if m.Status != 0 {
					notes <- "" // it has said why
				}
				ended <- nil
				return
			}
			var err error
			if m, err = t.stream.Recv(); err != nil {
				ended <- err
				return
			}
		}
	}()
	sent := make(chan error, 1)
	var local []string // told when all is over: one goroutine speaks at a time
	go func() {
		o := t.options()
		o.Note = func(line string) { local = append(local, line) }
		err := tree.Send(t.progress.count(frames{t.stream}), t.paths(), o)
		if err == nil {
			err = t.stream.Send(queue.PipeFrame{EOF: true})
		}
		sent <- err
	}()
	for text := range notes {
		t.missed = true
		for line := range strings.Lines(text) {
			t.note(strings.TrimSuffix(line, "\n"))
		}
	}
	err = <-ended
	t.stream.Close() // wakes who still sends to one that has ended
	if err != nil {
		t.progress.clear()
		return t.c.failErr(err)
	}
	if err := <-sent; err != nil && !t.missed {
		t.note(err.Error())
	}
	for _, line := range local {
		t.note(line)
	}
	return t.status()
}

func (t *transfer) paths() []string {
	out := make([]string, len(t.sources))
	for i, s := range t.sources {
		out[i] = s.path
	}
	return out
}

// frames is the input of the other side.
type frames struct{ stream session.Beside }

func (f frames) Write(b []byte) (int, error) {
	const most = 32 << 10
	for rest := b; len(rest) > 0; {
		part := rest[:min(len(rest), most)]
		if err := f.stream.Send(queue.PipeFrame{Data: part}); err != nil {
			return 0, err
		}
		rest = rest[len(part):]
	}
	return len(b), nil
}

// receive copies to here.
func (t *transfer) receive() int {
	r, w := io.Pipe()
	var failure error // what ended the stream before its exit; read when Receive has returned
	var notes []string
	status := int32(-1)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			m, err := t.stream.Recv()
			if err == nil && len(m.Err) > 0 {
				notes = append(notes, string(m.Err))
			}
			if err == nil && len(m.Data) > 0 {
				_, err = w.Write(m.Data)
			}
			if err != nil {
				failure = err
				_ = w.CloseWithError(err)
				return
			}
			if m.Exited {
				status = m.Status
				_ = w.Close()
				return
			}
		}
	}()
	err := tree.Receive(t.progress.reader(r), t.to, t.options())
	if err == nil {
		_, err = io.Copy(io.Discard, r) // the rest is padding, and the exit
	}
	_ = r.CloseWithError(io.ErrClosedPipe)
	t.stream.Close()
	<-over
	for _, text := range notes {
		for line := range strings.Lines(text) {
			t.note(strings.TrimSuffix(line, "\n"))
		}
	}
	switch {
	case status < 0 && failure != nil && !errors.Is(failure, io.ErrClosedPipe) && !t.missed: // not what we have closed ourselves
		t.progress.clear()
		return t.c.fail("bcp: " + show.CleanText(failure.Error()))
	case err != nil:
		t.note(err.Error())
	case status != 0:
		t.missed = true
	}
	return t.status()
}
