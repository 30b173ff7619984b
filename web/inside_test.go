package web

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every text that a page or the code asks for is there in every language, and every text is asked for.
func TestTexts(t *testing.T) {
	used := map[string]string{}
	collect := func(files fs.FS, pattern string, key *regexp.Regexp) {
		names, err := fs.Glob(files, pattern)
		if err != nil || len(names) == 0 {
			t.Fatal(pattern, len(names), err)
		}
		for _, name := range names {
			data, err := fs.ReadFile(files, name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range key.FindAllSubmatch(data, -1) {
				used[string(m[1])] = name
			}
		}
	}
	collect(templateFiles, "templates/*.html", regexp.MustCompile(`\bt "(\w+)"`))
	collect(os.DirFS("."), "*.go", regexp.MustCompile(`lang\.text\("(\w+)"\)`))
	for key, where := range used {
		if _, ok := texts[key]; !ok {
			t.Errorf("%s: there is no text %q", where, key)
		}
	}
	for key, row := range texts {
		if used[key] == "" {
			t.Errorf("nothing asks for the text %q", key)
		}
		for l, text := range row {
			if strings.TrimSpace(text) == "" {
				t.Errorf("%q has no text in %s", key, languageNames[l])
			}
		}
	}
}

func TestElementPaths(t *testing.T) {
	for _, bad := range []string{"", "0", "-1", "01", "+1", "1.", "1.0", "1.03", ".1", "1.2.3", "1[2]", " 1", "9223372036854775808", "1.2147483648"} {
		if id, err := parseElement(bad); err == nil {
			t.Errorf("%q names job %s", bad, id)
		}
	}
}

func FuzzParseElement(f *testing.F) {
	for _, s := range []string{"1", "12.3", "0", "1.", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := parseElement(s)
		if err == nil && (elementPath(id) != s || id.Job < 1 || id.Index < 0) {
			t.Errorf("%q was read as %s", s, id)
		}
	})
}

func FuzzParseSize(f *testing.F) {
	f.Add([]byte(`{"Rows":24,"Cols":80}`))
	f.Add([]byte(`{"Rows":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if z, err := parseSize(text); err == nil && (z.Rows < 1 || z.Rows > maxSide || z.Cols < 1 || z.Cols > maxSide) {
			t.Errorf("%q: %+v", text, z)
		}
	})
}

func FuzzAccepted(f *testing.F) {
	for _, s := range []string{"ja", "en;q=0.1,ko;q=0.2", ";;;,,q=", "ja;q=nan", "ja;q=1e9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if l := accepted(s); l < 0 || int(l) >= languages {
			t.Errorf("%q is language %d", s, l)
		}
	})
}
