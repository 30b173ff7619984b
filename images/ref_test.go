package images

import "testing"

func TestParseRef(t *testing.T) {
	for text, want := range map[string]Ref{
		"python:3.11":      {Name: "python", Tag: "3.11"},
		"python":           {Name: "python", Tag: "latest"},
		"ada/my-env:v1":    {Owner: "ada", Name: "my-env", Tag: "v1"},
		"_svc/x:_1":        {Owner: "_svc", Name: "x", Tag: "_1"},
		"PyTorch.2:A_b-c.": {Name: "PyTorch.2", Tag: "A_b-c."},
	} {
		got, err := ParseRef(text)
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ":", "a:", ":b", "/a", "a/", "a//b", "a/b/c", "a b", "a:b:c", "../x", ".a", "-a", "a\x00", "ä", "a@sha256:1", "docker://a", "a/.b"} {
		if got, err := ParseRef(text); err == nil {
			t.Errorf("%q is taken for %+v", text, got)
		}
	}
}

// A name that is read is written as what is read as the same; and is safe in a path and in a line of a listing.
func FuzzParseRef(f *testing.F) {
	f.Add("ada/python:3.11")
	f.Add("a:b:c")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRef(text)
		if err != nil {
			return
		}
		again, err := ParseRef(r.String())
		if err != nil || again != r {
			t.Fatalf("%q is %+v, and that is %+v, %v", text, r, again, err)
		}
		for _, part := range []string{r.Owner, r.Name, r.Tag} {
			if part == ".." || part == "." || len(part) > 128 {
				t.Fatalf("%q has the part %q", text, part)
			}
		}
	})
}
