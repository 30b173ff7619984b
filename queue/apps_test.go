package queue

import (
	"slices"
	"strings"
	"testing"
)

func TestParseApps(t *testing.T) {
	for in, want := range map[string]string{
		"jupyter": "jupyter", "jupyter,vs-code,a.b_c": "jupyter|vs-code|a.b_c",
		"": "", ",": "", "a,,b": "", "a,a": "", "a b": "", "../x": "", "-x": "", "a/b": "", strings.Repeat("x", 65): "",
		strings.Repeat("a,", MaxApps) + "b": "",
	} {
		got, err := ParseApps(in)
		if strings.Join(got, "|") != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q %v", in, got, err)
		}
	}
}

func FuzzParseApps(f *testing.F) {
	f.Add("jupyter,vscode")
	f.Add("a,,b")
	f.Fuzz(func(t *testing.T, in string) {
		got, err := ParseApps(in)
		if err != nil {
			return
		}
		again, err := ParseApps(strings.Join(got, ","))
		if err != nil || !slices.Equal(got, again) || strings.Join(got, ",") != in {
			t.Errorf("%q became %q, then %q %v", in, got, again, err)
		}
	})
}
