package images

import (
	"strings"
	"testing"
)

func TestMergeApps(t *testing.T) {
	site := []Program{{App: App{Name: "jupyter"}, Command: []string{"jupyter", "{port}"}, Auth: TokenAuth}, {App: App{Name: "ttyd"}, Command: []string{"ttyd"}}}
	got := MergeApps([]App{{Name: "jupyter", Proto: HTTP, Ports: []int{8081}}, {Name: "own", Proto: TCP, Ports: []int{9000}}}, site)
	if len(got) != 3 || !got[0].Image || got[0].Ports[0] != 8081 || got[0].Auth != TokenAuth || got[1].Name != "own" || got[2].Name != "ttyd" || got[2].Image {
		t.Errorf("merged to %+v", got)
	}
}

func TestTakes(t *testing.T) {
	s := Service{Command: []string{"x", "{ports[0]}"}, Prestart: []Action{{Kind: WriteTempfile, Body: "t = os.environ['FAIRSLICE_APP_TOKEN']"}}}
	if port, base, token := s.Takes(); !port || base || !token {
		t.Errorf("takes port %v, base %v, token %v", port, base, token)
	}
}

// What the user's own server says is held to what was asked for.
func TestParseAppStatesRefuses(t *testing.T) {
	order := &AppOrder{Apps: []Program{{App: App{Name: "a"}}}}
	for text, want := range map[string]string{
		`[{"name":"b","proto":"http"}]`:                                                     "nobody asked",
		`[{"name":"a","proto":"http","running":true,"port":22}]`:                            "port 22",
		`[{"name":"a","proto":"http","running":true}]`:                                      "port 0",
		`[{"name":"a","proto":"gopher"}]`:                                                   "no protocol",
		`[{"name":"a","proto":"http","auth":"x\r\nCookie: 1"}]`:                             "no way to show a token",
		`[{"name":"a","proto":"http","host":"10.0.0.1"}]`:                                   "unknown field",
		`[{"name":"a","proto":"http","failed":"` + strings.Repeat("x", MaxFailed+1) + `"}]`: "says too much",
		`[{"name":"a","proto":"http","failed":"\u0000"}]`:                                   "says too much",
		`[{"name":"a","proto":"http"}] x`:                                                   "follows the end",
	} {
		if _, err := ParseAppStates([]byte(text), order); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func FuzzParseAppStates(f *testing.F) {
	f.Add([]byte(`[{"name":"a","proto":"http","running":true,"port":8080,"auth":"token"}]`))
	order := &AppOrder{Apps: []Program{{App: App{Name: "a"}}}, Labels: true}
	f.Fuzz(func(t *testing.T, data []byte) {
		states, err := ParseAppStates(data, order)
		for _, s := range states {
			if err == nil && (s.Port != 0 && (s.Port < MinPort || s.Port > MaxPort) || !word(s.Name)) {
				t.Errorf("accepted %+v", s)
			}
		}
	})
}
