package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answering is a daemon that answers each connection with the next of texts, after reading the
// request, and keeps the last for all further ones.
func answering(t *testing.T, texts ...string) (config Config, seen func() int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	count, done := make(chan int, 1), make(chan struct{})
	count <- 0
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			count <- <-count + 1
			if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			_, _ = io.WriteString(conn, texts[min(i, len(texts)-1)])
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return Config{Address: "unix://" + path, Tries: 3, Backoff: time.Millisecond}, func() int { n := <-count; count <- n; return n }
}

const (
	good  = "HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: 2\r\n\r\n\x08\x07"
	later = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 41\r\n\r\n{\"code\":\"unavailable\",\"message\":\"booting\"}"
)

func submit(t *testing.T, c Config) (queue.Accepted, error) {
	t.Helper()
	u, err := NewUsers(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return u.Submit(ctx, queue.Submission{Token: "t", Spec: &queue.Spec{}})
}

func TestSubmitIsTriedAgainWhateverBreaks(t *testing.T) {
	for name, first := range map[string]string{
		"the connection breaks": "", "the head breaks": "HTTP/1.1 200 OK\r\nContent-", "the body breaks": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\x08",
		"a chunk breaks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n\x08", "not now": strings.Replace(later, "41", "42", 1), "noise": "\x00\x01\x02\n",
	} {
		c, seen := answering(t, first, good)
		lines := 0
		c.Waiting = func(line string) {
			lines++
			if line != "batch system daemon not responding ... still trying" {
				t.Errorf("%s: %q", name, line)
			}
		}
		if a, err := submit(t, c); err != nil || a.Job != 7 || seen() != 2 || lines != 1 {
			t.Errorf("%s: %+v, %v, %d calls, %d lines", name, a, err, seen(), lines)
		}
	}
	c, seen := answering(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\x08\r\n1;x=y\r\n\x07\r\n0\r\n\r\n")
	if a, err := submit(t, c); err != nil || a.Job != 7 || seen() != 1 {
		t.Errorf("chunks: %+v, %v", a, err)
	}
}

func TestADaemonThatIsNotThereIsGivenUpAfterTheTries(t *testing.T) {
	lines := 0
	c := Config{Address: "unix://" + filepath.Join(t.TempDir(), "none"), Tries: 4, Backoff: time.Millisecond, Waiting: func(string) { lines++ }}
	_, err := submit(t, c)
	var e *wire.Error
	if !errors.As(err, &e) || e.Code != wire.Unavailable || lines != 3 || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v after %d lines", err, lines)
	}
	c.Backoff, c.Tries = time.Hour, 2
	u, err := NewUsers(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := u.Cluster(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestWhatMayNotBeDoneTwiceIsNotTriedAgain(t *testing.T) {
	c, seen := answering(t, "", good)
	u, err := NewUsers(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.Control(context.Background(), queue.Control{Op: queue.OpTop}); err == nil || seen() != 1 || !strings.Contains(err.Error(), "look first") {
		t.Errorf("%v, %d calls", err, seen())
	}
}

func TestAStreamThatBreaksIsNoEnd(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\n\r\n"
	page := "\x00\x00\x00\x00\x00"
	for name, c := range map[string]struct {
		text string
		ok   bool
		msg  string
	}{
		"whole":            {head + page + "\x02\x00\x00\x00\x02{}", true, ""},
		"no end":           {head + page, false, "broke"},
		"half an envelope": {head + page + "\x00\x00", false, "broke"},
		"an error at last": {head + page + "\x02\x00\x00\x00\x32{\"error\":{\"code\":\"not_found\",\"message\":\"no job\"}}  ", false, "no job"},
		"a huge envelope":  {head + page + "\x00\xff\xff\xff\xff", false, "broke"},
	} {
		config, seen := answering(t, c.text)
		u, err := NewUsers(config)
		if err != nil {
			t.Fatal(err)
		}
		pages := 0
		err = u.Jobs(context.Background(), &pb.JobsRequest{}, func(*pb.JobsResponse) error { pages++; return nil })
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), c.msg) || pages != 1 || seen() != 1 {
			t.Errorf("%s: %v, %d pages, %d calls", name, err, pages, seen())
		}
	}
}

func TestAddressesAndEnvironment(t *testing.T) {
	env := map[string]string{"LSB_NTRIES": "9", "HOME": t.TempDir()}
	c := FromEnv(func(k string) string { return env[k] })
	if c.Address != DefaultAddress || c.Tries != 9 {
		t.Errorf("%+v", c)
	}
	env["FAIRSLICE_ADDR"], env["FAIRSLICE_TOKEN"] = "https://batch:6879", "fs_x"
	if c = FromEnv(func(k string) string { return env[k] }); c.Token != "fs_x" || !strings.HasSuffix(c.TokenFile, "/.config/fairslice/token") {
		t.Errorf("%+v", c)
	}
	for _, bad := range []string{"http://x", "unix://", "unix://relative", "https://", "https://user@host", "batch:6879"} {
		if _, err := NewUsers(Config{Address: bad}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func FuzzReadHead(f *testing.F) {
	f.Add(good)
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, body, err := readHead(bufio.NewReaderSize(strings.NewReader(text), maxLine))
		if err != nil {
			return
		}
		if data, _ := io.ReadAll(body); len(data) > len(text) {
			t.Errorf("%d bytes out of %d", len(data), len(text))
		}
	})
}
