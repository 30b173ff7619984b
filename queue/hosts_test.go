package queue

import (
	"slices"
	"strings"
	"testing"
)

func TestParseHosts(t *testing.T) {
	for _, c := range []struct {
		name, in, want, err string
	}{
		{"LSF's example", "h1! h2+2 others", "h1! h2+2 others", ""},
		{"plus alone is one", "h1+", "h1+1", ""},
		{"others with a preference", "h1+5 others+1", "h1+5 others+1", ""},
		{"blanks are one", "  a.b-c_d   e ", "a.b-c_d e", ""},
		{"mark and preference", "h1!+3", "h1!+3", ""},
		{"empty", " ", "", "-m is empty"},
		{"twice", "h1 h1+2", "", "named twice"},
		{"others first", "others!", "", "first execution host"},
		{"a host left out", "~h1", "", "select[hname!='host']"},
		{"a comma", "h1,h2", "", "letters, digits"},
		{"a path", "../x", "", "letters, digits"},
		{"a preference of words", "h1+x", "", "want a number after +"},
		{"preference 0", "h1+0", "", "preference from 1"},
		{"a huge preference", "h1+99999999999999999999", "", "preference from 1"},
		{"only a mark", "!", "", "1 to 255 characters"},
		{"a long name", strings.Repeat("h", 256), "", "1 to 255 characters"},
	} {
		got, err := ParseHosts(c.in)
		check(t, c.name, FormatHosts(got), c.want, err, c.err)
	}
}

func FuzzParseHosts(f *testing.F) {
	for _, s := range []string{"h1! h2+2 others", "h+", "others+3", "a!b", "a+!"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseHosts(s)
		if err != nil {
			return
		}
		if again, err := ParseHosts(FormatHosts(got)); err != nil || !slices.Equal(again, got) {
			t.Fatalf("%q gives %q, which reads back as %v (%v)", s, FormatHosts(got), again, err)
		}
	})
}
