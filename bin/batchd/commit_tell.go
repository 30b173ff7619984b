package main

import (
	"context"
	"time"

	"fairslice/images"
	"fairslice/nodes"
	"fairslice/queue"
)

// tellWithin bounds how long a line on a session's terminal may take. Whoever does not get it finds it in bjobs -l.
const tellWithin = 10 * time.Second

// onTerminal writes a line where the session's first process writes: whoever started this program has that one as descriptor 3, see
// package nodes/session.
const onTerminal = `while read -r key value; do [ "$key" = Pid: ] && pid=$value; done < /proc/$PPID/fdinfo/3
[ -t 3 ] 3<"/proc/$pid/fd/1" && printf '\r\n[fairslice: %s]\r\n' "$1" > "/proc/$pid/fd/1"`

// tell writes what became of a request on its session's terminal, where it has one, as a program beside the session.
func (c *committer) tell(ctx context.Context, r *images.Commit) {
	id := queue.ElementID{Job: queue.JobID(r.Job), Index: r.Index}
	var node nodes.ID
	c.eng.View(func(v queue.View) {
		j, el := v.Book().Find(id)
		if j != nil && el != nil && el.State == queue.Run && el.Attempt.Number == r.Attempt && j.Spec.Interactive.HasPty() {
			node = el.Attempt.Alloc[0].Node
		}
	})
	if node == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	args := [][]byte{[]byte("/bin/sh"), []byte("-c"), []byte(onTerminal), []byte("sh"), []byte(oneLine(r.Words()))}
	pipe, err := c.hub.Pipe(ctx, node, queue.PipeOrder{Kind: "exec", ID: id, Attempt: r.Attempt, Exec: &queue.ExecOrder{Args: args}})
	if err != nil {
		c.log.Debug("session not told of its image", "job", id.String(), "error", err)
		return
	}
	defer pipe.Close()
	defer context.AfterFunc(ctx, pipe.Close)()
	for {
		m, err := pipe.Recv()
		if err != nil || m.GetEnd() || m.GetError() != "" || m.GetExited() {
			return
		}
	}
}
