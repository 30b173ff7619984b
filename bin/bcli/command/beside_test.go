package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/nodes/session/tree"
	"fairslice/queue"
)

// otherSide plays what is beside a job, from a script of what it says.
type otherSide struct {
	says chan *pb.ExecResponse
	mu   sync.Mutex
	got  strings.Builder
	once sync.Once
	gone chan struct{}
}

func plays(list ...*pb.ExecResponse) *otherSide {
	o := &otherSide{says: make(chan *pb.ExecResponse, len(list)+100), gone: make(chan struct{})}
	for _, m := range list {
		o.says <- m
	}
	return o
}

func (o *otherSide) Send(f queue.PipeFrame) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got.Write(f.Data)
	if f.EOF {
		o.got.WriteString("<eof>")
	}
	return nil
}

func (o *otherSide) Recv() (*pb.ExecResponse, error) {
	select {
	case m := <-o.says:
		return m, nil
	default:
	}
	return nil, wire.Errorf(wire.Unavailable, "the connection broke")
}

func (o *otherSide) Close() { o.once.Do(func() { close(o.gone) }) }

func TestBexec(t *testing.T) {
	begun := &pb.ExecResponse{Begun: true}
	f := &fake{beside: plays(begun, &pb.ExecResponse{Data: []byte("out\n")}, &pb.ExecResponse{Err: []byte("err\n")}, &pb.ExecResponse{Exited: true, Status: 7 << 8})}
	f.do("bexec -d /data -e A=1 -e B=x=y 12[3] ls -la -t").want(t, 7, "out\n", "err\n")
	e := f.opened.GetExec()
	if got := fmt.Sprintf("%s %s %s %s %v", f.opened.Id, e.Args, e.Env, e.Dir, e.Tty); got != "12[3] [ls -la -t] [A=1 B=x=y] /data false" {
		t.Errorf("asked for %s", got)
	}
	f.beside = plays(begun, &pb.ExecResponse{Exited: true, Status: 15})
	f.do("bexec 12 sleep").want(t, 143, "", "")
	f.beside = plays(begun)
	f.do("bexec 12 sleep").want(t, 255, "", "bexec: the connection broke\n")
	f.do("bexec abc true").want(t, 255, "", "abc: Illegal job ID.\n")
	f.do("bexec -e =x 12 true").has(t, 255, "", "want NAME=VALUE")
	f.err = wire.Errorf(wire.Denied, "Job <12> : User permission denied")
	f.do("bexec 12 true").want(t, 255, "", "Job <12> : User permission denied\n")
}

// What comes from the other side cannot leave the destination, whatever it is.
func TestBcpTrustsNothing(t *testing.T) {
	up := t.TempDir()
	to := filepath.Join(up, "to")
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(t.TempDir(), "name.")
	if err := os.WriteFile(source, []byte("evil"), 0o600); err != nil {
		t.Fatal(err)
	}
	var good strings.Builder
	if err := tree.Send(&good, []string{source}, tree.Options{Note: func(s string) { t.Error(s) }}); err != nil {
		t.Fatal(err)
	}
	exit := &pb.ExecResponse{Exited: true}
	begun := &pb.ExecResponse{Begun: true}
	data := func(s string) *pb.ExecResponse { return &pb.ExecResponse{Data: []byte(s)} }
	for _, row := range []struct {
		what  string
		says  []*pb.ExecResponse
		code  int
		words string
		there string
	}{
		{"a file", []*pb.ExecResponse{begun, data(good.String()), exit}, 0, "", "name."},
		{"no archive", []*pb.ExecResponse{begun, data(strings.Repeat("junk", 1000)), exit}, 1, "read the stream", ""},
		{"half of one", []*pb.ExecResponse{begun, data(good.String()[:1000])}, 255, "the connection broke", ""},
		{"words of failure", []*pb.ExecResponse{begun, {Err: []byte("stat x: \x1b[31mno such file\n")}, {Exited: true, Status: 256}}, 1, "no such file", ""},
		{"another name", []*pb.ExecResponse{begun, data(strings.ReplaceAll(good.String(), "name.", "../xx")), exit}, 1, "", ""},
	} {
		f := &fake{beside: plays(row.says...)}
		r := f.do("bcp 12:name. " + to)
		there, _ := filepath.Glob(to + "/*")
		if r.code != row.code || !strings.Contains(r.errors, row.words) || strings.Contains(r.errors, "\x1b") || (len(there) == 1) != (row.there != "") {
			t.Errorf("%s: %+v, there %q", row.what, r, there)
		}
		for _, p := range there {
			_ = os.Remove(p)
		}
		if beside, _ := os.ReadDir(up); len(beside) != 1 {
			t.Errorf("%s: beside the destination: %v", row.what, beside)
		}
	}
}

func TestBcpSends(t *testing.T) {
	source := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(source, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := plays(&pb.ExecResponse{Begun: true}, &pb.ExecResponse{Err: []byte("a: disk full\n")}, &pb.ExecResponse{Exited: true, Status: 256})
	f := &fake{beside: o}
	f.do("bcp "+source+" 12:/tmp/").want(t, 1, "", "bcp: a: disk full\n")
	if c := f.opened.GetCopy(); string(c.To) != "/tmp/" || !c.Into || c.Recursive || len(c.Paths) != 0 {
		t.Errorf("asked for %v", c)
	}
	f.do("bcp a b").has(t, 255, "", "one side is here")
	f.do("bcp 1:a 2:b .").has(t, 255, "", "one job")
	f.do("bcp 1:a").has(t, 255, "", "a source and a destination")
}

func FuzzParsePlace(f *testing.F) {
	for _, s := range []string{"a", "12:a", "12[3]:/x", "./a:b", ":a", "12:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := parsePlace(s)
		switch {
		case p.job == "" && p.path != s:
			t.Errorf("%q became the path %q here", s, p.path)
		case p.job != "" && (strings.ContainsAny(p.job, "/:") || p.path == "" || p.job+":"+p.path != s && p.job+":" != s):
			t.Errorf("%q became %+v", s, p)
		}
	})
}
