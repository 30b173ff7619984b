package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"fairslice/api/pb"
	"fairslice/bin/bcli/session"
	"fairslice/bin/bcli/show"
	"fairslice/queue"
)

var errNoAnswer = errors.New("the batch daemon did not say where the app is")

// forwarding is one -L: a port of this machine (0: the app's own), and what it leads to.
type forwarding struct {
	local int
	app   string
}

// parseForward reads "[PORT:]APP", where APP may be a port, too.
func parseForward(s string) (forwarding, error) {
	local, app, both := strings.Cut(s, ":")
	if !both {
		local, app = "0", s
	}
	n, err := strconv.Atoi(local)
	switch {
	case err != nil || n < 0 || n > 65535 || both && n == 0:
		return forwarding{}, fmt.Errorf("%.80q: want PORT:APP such as 8888:jupyter, the port from 1 to 65535", s)
	case app == "" || strings.ContainsAny(app, ":/ \t\n"):
		return forwarding{}, fmt.Errorf("%.80q: want PORT:APP such as 8888:jupyter or 5432:5432", s)
	}
	return forwarding{n, app}, nil
}

// forward leads ports of this machine to apps, until it is interrupted.
func (c *call) forward(words []string, job string) int {
	var list []forwarding
	for _, w := range words {
		f, err := parseForward(w)
		if err != nil {
			return c.fail("bapp: -L " + err.Error())
		}
		list = append(list, f)
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	ctx, stop := signal.NotifyContext(c.ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	defer stop() // before it is waited for
	for _, f := range list {
		app, err := openApp(c, u, job, f.app)
		if err != nil {
			return c.failErr(err)
		}
		if f.local == 0 {
			f.local = int(app.Port)
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(f.local)))
		if err != nil {
			return c.fail("bapp: " + err.Error())
		}
		c.print(localAddress(l.Addr().String(), app) + "\n")
		_ = c.out.Flush() // seen again at the last Flush
		all.Go(func() {
			<-ctx.Done()
			_ = l.Close()
		})
		all.Go(func() { c.accept(ctx, u, l, job, app.Port, &all) })
	}
	<-ctx.Done()
	return 0
}

// localAddress is what to open. An app that wants a token is told it, as no proxy shows it on this way.
func localAddress(address string, app *pb.AppInfo) string {
	switch {
	case app.Proto != "http" && app.Proto != "preopen":
		return address
	case app.Auth == "token":
		return "http://" + address + "/?token=" + show.Clean(app.Token)
	case app.Auth != "":
		return "http://" + address + "/  (user fairslice, password " + show.Clean(app.Token) + ")"
	}
	return "http://" + address + "/"
}

func (c *call) accept(ctx context.Context, u Users, l net.Listener, job string, port int32, all *sync.WaitGroup) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // closed at the end
		}
		all.Go(func() {
			defer conn.Close()
			b, err := u.Exec(ctx, &pb.ExecOpen{Id: job, What: &pb.ExecOpen_Dial{Dial: &pb.DialOrder{Port: port, Own: true}}})
			if err == nil {
				err = carry(ctx, conn, b)
			}
			if err != nil && ctx.Err() == nil {
				_, _ = io.WriteString(c.stderr, "bapp: "+show.CleanText(err.Error())+"\n") // nowhere to tell of a failure
			}
		})
	}
}

// carry ties a connection to one beside the job, until both directions have ended or one side has gone.
func carry(ctx context.Context, conn net.Conn, b session.Beside) error {
	defer b.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	begun := make(chan struct{})
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		<-begun
		for buf := make([]byte, 32<<10); ; {
			n, err := conn.Read(buf)
			if n > 0 && b.Send(queue.PipeFrame{Data: buf[:n]}) != nil {
				return
			}
			if errors.Is(err, io.EOF) {
				_ = b.Send(queue.PipeFrame{EOF: true}) // Recv says when it is over
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		_ = conn.Close()
		<-sent
	}()
	for open := false; ; {
		m, err := b.Recv()
		if !open {
			open = true
			close(begun)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := conn.Write(m.Data); err != nil {
			return nil // whoever connected here has gone
		}
		if m.Eof {
			if half, ok := conn.(*net.TCPConn); ok {
				_ = half.CloseWrite() // fails when the other side has gone
			}
		}
	}
}
