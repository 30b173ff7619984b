package sif

import (
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for _, row := range []struct {
		s    string
		want URL
	}{
		{"docker://ubuntu", URL{Scheme: "docker", Path: "ubuntu"}},
		{"docker://team/torch:2.4-cuda", URL{Scheme: "docker", Path: "team/torch", Tag: "2.4-cuda"}},
		{"docker://127.0.0.1:5000/a/b_c:X", URL{Scheme: "docker", Host: "127.0.0.1:5000", Path: "a/b_c", Tag: "X"}},
		{"docker://localhost/a", URL{Scheme: "docker", Host: "localhost", Path: "a"}},
		{"docker://registry.example/a:1@" + digest, URL{Scheme: "docker", Host: "registry.example", Path: "a", Tag: "1", Digest: "sha256:" + "" + "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"}},
		{"oras://registry.example/a/b:1", URL{Scheme: "oras", Host: "registry.example", Path: "a/b", Tag: "1"}},
		{"library://User/default/Alpine:3.21", URL{Scheme: "library", Path: "User/default/Alpine", Tag: "3.21"}},
	} {
		got, err := ParseURL(row.s)
		if err != nil || got != row.want || got.String() != row.s {
			t.Errorf("%s: %+v, %v; want %+v", row.s, got, err, row.want)
		}
	}
	for _, row := range []struct{ s, want string }{
		{"", "want docker://"},
		{"http://registry.example/a", "want docker://"},
		{"docker-daemon://a", "want docker://"},
		{"docker://", `"" in its name`},
		{"docker://user:secret@registry.example/a", "behind the @"},
		{"docker://a?b=c", "in its name"},
		{"docker://-oFlag", "in its name"},
		{"docker://../../etc/passwd", "is no host name"},
		{"docker://a/../b", `".." in its name`},
		{"docker://a//b", `"" in its name`},
		{"docker://a b", "in its name"},
		{"docker://a\nb", "in its name"},
		{"docker://Team/torch", `"Team" in its name`},
		{"docker://a:", "tag"},
		{"docker://a:-x", "tag"},
		{"docker://a:x:y", "tag"},
		{"docker://registry.example:99999/a", `port "99999"`},
		{"docker://registry.example:0080/a", `port "0080"`},
		{"docker://a@sha256:12", "is no digest"},
		{"oras://a/b", "begins with no host"},
		{"docker://" + strings.Repeat("a", 2000), "at most 1024"},
	} {
		if got, err := ParseURL(row.s); err == nil || !strings.Contains(err.Error(), row.want) || len(err.Error()) > 600 {
			t.Errorf("%q: %+v, %v; want %q", row.s, got, err, row.want)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"docker://a/b:c", "oras://h.x:1/a@sha256:", "library://A/b/c", "docker://localhost/a", "docker://[::1]:5/a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := ParseURL(s)
		if err != nil {
			return
		}
		if again, err := ParseURL(u.String()); err != nil || again != u {
			t.Fatalf("%q became %+v, then %+v, %v", s, u, again, err)
		}
		if strings.ContainsAny(s, " \t\n\x00?#%\\'\"$`*<>|&;") {
			t.Fatalf("%q was accepted", s)
		}
	})
}
