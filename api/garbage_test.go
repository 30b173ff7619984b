package api_test

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"fairslice/api"
	"fairslice/api/wire"
	"fairslice/queue"
)

func TestGarbageIsRefusedAndTheServerLivesOn(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	noise := make([]byte, 4096)
	_, _ = rand.Read(noise)
	post := func(path, kind, body string) string {
		return fmt.Sprintf("POST /fairslice.v1.%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", path, kind, len(body), body)
	}
	for name, c := range map[string]struct{ send, want string }{
		"random bytes":           {string(noise), "HTTP/1.1 400"},
		"half an HTTP/2 preface": {"PRI * HTTP/2.0\r\n\r\nSM", ""},
		"HTTP/2 and then noise":  {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + string(noise), ""},
		"HTTP/2 frame cut off":   {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x40\x00\x01\x04", ""},
		"huge header":            {"GET / HTTP/1.1\r\nX: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", "HTTP/1.1 431"},
		"many headers":           {"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-Y: z\r\n", 1<<17) + "\r\n", "HTTP/1.1 431"},
		"not protobuf":           {post("Users/Cluster", "application/proto", "\xff\xff\xff"), "HTTP/1.1 400"},
		"another content type":   {post("Users/Cluster", "text/plain", "hello"), "HTTP/1.1 415"},
		"no such call":           {post("Users/Format", "application/proto", ""), "HTTP/1.1 404"},
		"a node over HTTP/1.1":   {post("Nodes/Connect", "application/connect+proto", ""), "HTTP/1.1 505"},
		"an envelope that lies":  {post("Users/Jobs", "application/connect+proto", "\x00\xff\xff\xff\xff"), "HTTP/1.1 200"},
		"a body too large":       {post("Users/Control", "application/proto", strings.Repeat("a", 5<<20)), "HTTP/1.1 "},
		"a body that never ends": {"POST /fairslice.v1.Users/Submit HTTP/1.1\r\nHost: x\r\nContent-Type: application/proto\r\nContent-Length: 99\r\n\r\nabc", ""},
	} {
		for _, network := range []string{"unix", "tls"} {
			t.Run(name+"/"+network, func(t *testing.T) {
				conn, err := net.Dial("unix", s.socket)
				if network == "tls" {
					conn, err = tls.Dial("tcp", s.tcp, &tls.Config{InsecureSkipVerify: true})
				}
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
					t.Fatal(err)
				}
				got := make(chan string, 1)
				go func() {
					var b bytes.Buffer
					_, _ = io.Copy(&b, conn) // a reset is an answer, too
					got <- b.String()
				}()
				_, _ = io.WriteString(conn, c.send) // may be cut off by the refusal
				if half, ok := conn.(interface{ CloseWrite() error }); ok {
					_ = half.CloseWrite()
				}
				if answer := receive(t, got); !strings.HasPrefix(answer, c.want) && answer != "" || strings.Contains(answer, "panic") {
					t.Errorf("answer %.200q", answer)
				}
			})
		}
	}
	raw, err := net.Dial("tcp", s.tcp)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = raw.Write(noise) // noise under TLS
	_, _ = io.Copy(io.Discard, raw)
	_ = raw.Close()
	if _, err := s.users(s.unix()).Cluster(deadline(t)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestAPanicFailsOneCallOnly(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	u := s.users(s.unix())
	s.engine.submit = func(queue.Submission) error { panic("a bug") }
	sub := queue.Submission{Token: "x", Spec: &queue.Spec{SubCWD: "/"}}
	if _, err := u.Submit(deadline(t), sub); code(err) != wire.Internal || strings.Contains(err.Error(), "a bug") {
		t.Errorf("got %v", err)
	}
	s.engine.submit = func(queue.Submission) error {
		return fmt.Errorf("submit: %w", wire.Errorf(wire.Conflict, "normal: Queue is closed"))
	}
	if _, err := u.Submit(deadline(t), sub); code(err) != wire.Conflict || err.Error() != "normal: Queue is closed" {
		t.Errorf("got %v", err)
	}
}

func TestASocketIsReplacedOnlyWhenNobodyAnswers(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	if _, err := api.ListenUnix(s.socket); err == nil || !strings.Contains(err.Error(), "another daemon") {
		t.Errorf("got %v", err)
	}
	stale := t.TempDir() + "/run/sock"
	l, err := api.ListenUnix(stale)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	if l, err = api.ListenUnix(stale); err != nil {
		t.Fatalf("a dead daemon's socket: %v", err)
	}
	_ = l.Close()
}
