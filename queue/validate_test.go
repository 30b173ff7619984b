package queue

import (
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	at := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		make func(*Spec)
		want []string // part of each error, in order
	}{
		{"a command is enough", func(*Spec) {}, nil},
		{"no command", func(s *Spec) { s.Command = "" }, []string{"No command is specified"}},
		{"a spooled script is a command", func(s *Spec) { s.Command, s.ScriptHash = "", strings.Repeat("0a", 32) }, nil},
		{"a hash that is none", func(s *Spec) { s.ScriptHash = "../../etc/passwd" }, []string{"no SHA-256"}},
		{"a command may be any bytes", func(s *Spec) { s.Command = "printf '\xff\n'" }, nil},
		{"but NUL", func(s *Spec) { s.Command = "a\x00b" }, []string{"the command holds a NUL byte"}},
		{"paths may go up", func(s *Spec) { s.Stdout, s.CWD = "../o.%J", "../x" }, nil},
		{"names may not", func(s *Spec) { s.Name, s.Queue, s.Project = "../x", "..", "a/../b" }, []string{"Bad job name", "Bad queue name", "Bad project name"}},
		{"dots in a name are fine", func(s *Spec) { s.Name = "v1..2" }, nil},
		{"a name of a state, several queues", func(s *Spec) { s.Name, s.Queue = "DONE", "a b" }, nil},
		{"a name that forges a line", func(s *Spec) { s.Name, s.Project, s.MailUser = "a\nb", "p\x00", "u\r\nBcc: x" },
			[]string{"Bad job name", "-P", "-u"}},
		{"names must be UTF-8", func(s *Spec) { s.Name, s.Stdout = "\xff", "\xff" }, []string{"Bad job name", "-o"}},
		{"lengths", func(s *Spec) {
			s.Description, s.Stdin, s.Command = strings.Repeat("x", 4095), strings.Repeat("x", 4097), strings.Repeat("x", 1<<20+1)
		}, []string{"-jd", "the command", "-i"}},
		{"absolute paths", func(s *Spec) { s.SubCWD, s.Shell = "here", "bash" }, []string{"the submission directory", "-L"}},
		{"slots backwards", func(s *Spec) { s.MinSlots, s.MaxSlots = 4, 2 }, []string{"-n 4,2"}},
		{"impossible quantities", func(s *Spec) {
			s.MinSlots, s.Memory, s.RunLimit, s.Priority, s.Umask = -1, -1, -time.Hour, -1, 0o1000
			s.Limits = map[string]int64{"S": 0, "C": 0, "z": 1}
		}, []string{"-n", "-M", "-W", "-sp", "umask", "-S", "-z"}},
		{"ends before it begins", func(s *Spec) { s.Begin, s.Terminate = at, at }, []string{"-t"}},
		{"an array", func(s *Spec) { s.Array = &Array{Ranges: []Range{{1, 3, 1}}} }, nil},
		{"impossible arrays", func(s *Spec) { s.Array = &Array{Ranges: []Range{{0, 3, 1}, {1, 1 << 40, 1}, {1, 2, 0}}, Limit: -1} },
			[]string{"Job array index error", "Job array index error", "Job array index error", "the limit -1"}},
		{"an empty array", func(s *Spec) { s.Array = &Array{} }, []string{"0 ranges"}},
		{"an array at a terminal", func(s *Spec) { s.Array, s.Interactive = &Array{Ranges: []Range{{1, 3, 1}}}, Pty }, []string{"Interactive job arrays"}},
		{"waiting for an array", func(s *Spec) { s.Array, s.Interactive = &Array{Ranges: []Range{{1, 3, 1}}}, Wait }, nil},
		{"-K and -I at once", func(s *Spec) { s.Interactive = "KI" }, []string{"-K, -I, -Ip or -Is"}},
		{"a select that was not parsed", func(s *Spec) { s.Resources.Select = "mem>5" }, []string{"not in canonical form"}},
		{"GPUs that contradict", func(s *Spec) { s.Resources.FGPU = 50; s.GPURequest = &GPUOption{Num: 1} }, []string{"different GPUs"}},
		{"a GPU of nothing", func(s *Spec) { s.GPURequest = &GPUOption{} }, []string{"impossible quantities"}},
		{"impossible resources", func(s *Spec) {
			s.Resources = ResReq{Memory: -1, MemoryScope: "rack", Consumables: map[string]int64{"a=b": 1}, Cores: -1}
		}, []string{"impossible quantities", "scope rack", "a=b", "span or affinity"}},
		{"hosts that hide others", func(s *Spec) { s.Hosts = []HostWish{{Name: "a b"}} }, []string{"-m"}},
		{"hosts", func(s *Spec) { s.Hosts = []HostWish{{Name: "a", First: true}, {Name: "others", Others: true}} }, nil},
		{"a dependency", func(s *Spec) { s.Depend = "done(1" }, []string{"Dependency condition syntax error"}},
		{"overwriting nothing", func(s *Spec) { s.Overwrite, s.OverwriteE = true, true }, []string{"-oo", "-eo"}},
	} {
		s := &Spec{Command: "true"}
		c.make(s)
		got := s.Validate()
		for i, err := range got {
			if i >= len(c.want) || !strings.Contains(err.Error(), c.want[i]) {
				t.Errorf("%s: error %d is %q, want one with %q", c.name, i, err, c.want)
			}
		}
		if len(got) < len(c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func FuzzValidate(f *testing.F) {
	f.Add("n", "q", "h1!", "mem > 5M", "done(1)", 1, int64(5))
	f.Fuzz(func(t *testing.T, name, queue, host, sel, depend string, n int, big int64) {
		s := &Spec{Name: name, Command: name, Queue: queue, Depend: depend, MinSlots: n, Memory: big, Stdout: host,
			Array: &Array{Ranges: []Range{{n, int(big), n}}, Limit: n}, Hosts: []HostWish{{Name: host, Preference: n}}}
		s.Resources.Select, s.Resources.FGPU = Select(sel), 50
		if len(s.Validate()) > 0 {
			return
		}
		if s.Array.Count() < 1 || strings.ContainsAny(name+queue, "\x00\n") || s.Memory < 0 {
			t.Fatalf("valid, but: %+v", s)
		}
	})
}
