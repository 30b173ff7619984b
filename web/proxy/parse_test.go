package proxy

import (
	"net/http"
	"strings"
	"testing"

	"fairslice/api"
	"fairslice/images"
	"fairslice/queue"
)

func TestLabels(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"jupyter", "mlflow-ui", "5000", "Jupyter", "a.b_c", strings.Repeat("long", 16), strings.Repeat("long", 15) + "lonG"} {
		at := api.AppPlace{ID: queue.ElementID{Job: 1<<62 + 1, Index: 1_000_000}, Attempt: 1 << 30, Name: name}
		l := label(at)
		if other, twice := seen[l]; twice {
			t.Errorf("%s and %s have one label, %s", name, other, l)
		}
		seen[l] = name
		back, err := parseLabel(l)
		if back.Name = name; err != nil || back != at {
			t.Errorf("%s: %v, %v", l, back, err)
		}
	}
	for _, bad := range []string{"", "1", "1-2-3", "1-2-3-", "01-0-1-a", "+1-0-1-a", "1--1-1-a", "1-0-1-A", "1-0-1-a.b", "99999999999999999999-0-1-a", "1-0-1-" + strings.Repeat("a", 60)} {
		if at, err := parseLabel(bad); err == nil {
			t.Errorf("%q is taken for %v", bad, at)
		}
	}
}

func FuzzLabel(f *testing.F) {
	f.Add("12-0-1-jupyter")
	f.Fuzz(func(t *testing.T, s string) {
		at, err := parseLabel(s)
		if err != nil {
			return
		}
		if part := strings.SplitN(s, "-", 4); !strings.HasPrefix(label(at), strings.Join(part[:3], "-")+"-") {
			t.Errorf("%q became %v", s, at)
		}
	})
}

// FuzzPass holds that nothing opens a place but what was made for it.
func FuzzPass(f *testing.F) {
	key := Key{7}
	at := api.AppPlace{ID: queue.ElementID{Job: 12}, Attempt: 1, Name: "jupyter"}
	f.Add(key.pass(forLink, at))
	f.Add("anVweXRlcg.")
	f.Fuzz(func(t *testing.T, s string) {
		if got, ok := key.opens(forLink, at, s); ok && s != key.pass(forLink, got) {
			t.Errorf("%q opens %v", s, got)
		}
		if pass, rest, found := takePass("a=1&" + passParameter + "=" + s + "&b=2"); !found || strings.Contains(rest, passParameter+"=") || pass != "" && strings.Contains(s, "&") && strings.Contains(pass, "&b=2") {
			t.Errorf("%q: %q, %q, %v", s, pass, rest, found)
		}
	})
}

// FuzzCookie holds that no Set-Cookie of an app holds outside of its path and host, or is one of ours, as a browser reads it.
func FuzzCookie(f *testing.F) {
	f.Add("a=1; Domain=example.org; Path=/")
	f.Add("fairslice-app=1")
	f.Add("a=1; path=/app/x/y; PATH=/")
	f.Fuzz(func(t *testing.T, line string) {
		tr := &translation{visit: visit{prefix: "/app/x", origin: "http://h"}, state: images.AppState{TakesBase: true}}
		out := tr.cookie(line)
		if out == "" {
			return
		}
		c, err := http.ParseSetCookie(out)
		if err != nil {
			return // browsers throw it away, too
		}
		if isOwnCookie(c.Name) || c.Domain != "" || c.Path != "/app/x" && !strings.HasPrefix(c.Path, "/app/x/") {
			t.Errorf("%q became %q", line, out)
		}
	})
}
