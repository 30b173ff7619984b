package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"fairslice/api"
	"fairslice/queue"
)

// terminalPage is a terminal in a page of its own, so that there can be several.
type terminalPage struct {
	ID      string
	Path    string
	Name    string
	Session bool // it can be the session's own
	Own     bool // and is
}

func (s *Server) showTerminal(w http.ResponseWriter, v *visit) error {
	p := terminalPage{Path: v.r.PathValue("job")}
	var err error
	p.ID, err = v.named(func(_ queue.View, j *queue.Job, e *queue.Element) {
		p.Name, p.Session = j.DisplayName(e.Index), j.Spec.Interactive.HasPty()
	})
	if err != nil {
		return err
	}
	p.Own = p.Session && v.r.URL.Query().Get("shell") == ""
	return v.render(w, http.StatusOK, "terminal", p)
}

// Bounds of a terminal.
const (
	maxTyped    = 1 << 20          // bytes of one message from the browser
	writeWait   = 30 * time.Second // for a browser that does not read
	pingEvery   = 20 * time.Second
	rightsEvery = time.Minute // how soon a token that was taken back ends a terminal
	maxSide     = 1000        // rows and columns
)

// size is the only text that a browser sends: what it types comes as binary messages.
type size struct {
	Rows, Cols uint16
}

func parseSize(text []byte) (size, error) {
	var z size
	if err := json.Unmarshal(text, &z); err != nil {
		return z, fmt.Errorf("terminal size: %w", err)
	}
	if z.Rows < 1 || z.Rows > maxSide || z.Cols < 1 || z.Cols > maxSide {
		return z, fmt.Errorf("a terminal of %d rows and %d columns: want 1 to %d of each", z.Rows, z.Cols, maxSide)
	}
	return z, nil
}

// console ties a WebSocket to a terminal: a shell beside the job, or (?own=1) the session's own, which goes on when the page is
// closed. The first message is the size. Output goes to the browser as binary messages; the only text is the last
// message: why it is over.
func (s *Server) console(w http.ResponseWriter, v *visit) error {
	if !s.ownOrigin(v.r) || v.r.Header.Get("Origin") == "" {
		return &api.Error{Code: api.Denied, Msg: v.lang.text("stale_form")}
	}
	name, err := v.named(nil)
	if err != nil {
		return err
	}
	done, ok := v.session.terminal()
	if !ok {
		return &api.Error{Code: api.Conflict, Msg: fmt.Sprintf("%d terminals are open already", maxTerminals)}
	}
	defer done()
	// The origin was checked, and a proxy may have changed the Host that the library compares with.
	socket, err := websocket.Accept(w, v.r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil // it has answered
	}
	defer socket.CloseNow() //nolint:errcheck // it is over
	socket.SetReadLimit(maxTyped)
	ctx, cancel := v.lasting()
	defer cancel()
	t := &terminal{visit: v, socket: socket, free: queue.InputWindow}
	t.taken = sync.NewCond(&t.mu)
	why := t.run(ctx, name, v.r.URL.Query().Get("own") != "")
	if ctx.Err() == nil {
		out, stop := context.WithTimeout(ctx, writeWait)
		defer stop()
		if socket.Write(out, websocket.MessageText, []byte(why)) == nil {
			_ = socket.Close(websocket.StatusNormalClosure, "")
		}
	}
	return nil
}

// lasting is a context that ends with the login, with the server, and at the latest with the session's time. (The request's own
// ends when its connection was taken over.)
func (v *visit) lasting() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.r.Context()), v.session.until.Sub(v.now))
	go func() {
		rights := time.NewTicker(rightsEvery)
		defer rights.Stop()
		for {
			select {
			case <-rights.C:
				if _, err := v.session.who(); err != nil {
					cancel()
				}
			case <-v.session.over:
				cancel()
			case <-v.closed:
				cancel()
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}

// terminal is one that is open.
type terminal struct {
	*visit
	socket *websocket.Conn

	mu    sync.Mutex
	taken *sync.Cond
	free  int // bytes that may still be sent to a program beside the job
	over  bool
}

// run works until the program has ended or the browser has gone, and says why for the browser.
func (t *terminal) run(ctx context.Context, job string, own bool) string {
	_, first, err := t.socket.Read(ctx)
	if err != nil {
		return ""
	}
	z, err := parseSize(first)
	if err != nil {
		return err.Error()
	}
	var c *api.Console
	if own {
		c, err = t.Consoles.Takeover(ctx, t.by, job, z.Rows, z.Cols)
	} else {
		c, err = t.Consoles.Beside(ctx, t.by, job, queue.ExecOrder{TTY: true, Term: term}, z.Rows, z.Cols)
	}
	if err != nil {
		text, _ := t.explain(t.r, t.lang, err)
		return text
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer c.Close()
	stop := context.AfterFunc(ctx, c.Close) // wakes Recv
	defer stop()
	var both sync.WaitGroup
	defer both.Wait()
	defer cancel()
	both.Go(func() { defer cancel(); t.input(ctx, c) })
	both.Go(func() { defer cancel(); t.ping(ctx) })
	defer t.stopInput()
	return t.output(ctx, c)
}

// output passes on what the program writes, until its end.
func (t *terminal) output(ctx context.Context, c *api.Console) string {
	for {
		m, err := c.Recv()
		if err != nil {
			text, _ := t.explain(t.r, t.lang, err)
			return text
		}
		if len(m.Data) > 0 {
			out, stop := context.WithTimeout(ctx, writeWait)
			err := t.socket.Write(out, websocket.MessageBinary, m.Data)
			stop()
			if err != nil {
				return ""
			}
		}
		t.mu.Lock()
		t.free += m.Taken
		t.taken.Broadcast()
		t.mu.Unlock()
		if m.Exited {
			return t.lang.text("program_ended")
		}
	}
}

// input passes on what is typed, and the window's size. It sends no more than the program may have before it.
func (t *terminal) input(ctx context.Context, c *api.Console) {
	for {
		kind, data, err := t.socket.Read(ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageText {
			z, err := parseSize(data)
			if err != nil || c.Send(queue.PipeFrame{Rows: z.Rows, Cols: z.Cols}) != nil {
				return
			}
			continue
		}
		for len(data) > 0 {
			n := len(data)
			if !c.Own() {
				if n = t.take(n); n == 0 {
					return
				}
			}
			if c.Send(queue.PipeFrame{Data: data[:n]}) != nil {
				return
			}
			data = data[n:]
		}
	}
}

// take waits for room for some of n bytes; 0 when it is over.
func (t *terminal) take(n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.free <= 0 && !t.over {
		t.taken.Wait()
	}
	if t.over {
		return 0
	}
	n = min(n, t.free)
	t.free -= n
	return n
}

func (t *terminal) stopInput() {
	t.mu.Lock()
	t.over = true
	t.taken.Broadcast()
	t.mu.Unlock()
}

// ping finds out that a browser is gone which has not said so.
func (t *terminal) ping(ctx context.Context) {
	every := time.NewTicker(pingEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			out, stop := context.WithTimeout(ctx, writeWait)
			err := t.socket.Ping(out)
			stop()
			if err != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
