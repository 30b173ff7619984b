package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParseJobName(t *testing.T) {
	for _, c := range []struct {
		name, in, want, err string
	}{
		{"a name", "train", "train", ""},
		{"no name", "", "", ""},
		{"blanks, quotes and letters of any script stay", `Dask "On" LSF^ ä`, `Dask "On" LSF^ ä`, ""},
		{"quotes that a script passed on", `'name[1-3]'`, "name [1-3] 1 2 3", ""},
		{"a word of states", "DONE", "DONE", ""},
		{"a percent sign alone is the name's", "a%5", "a%5", ""},
		{"everything at once", "name[1-10:4,15]%5", "name [1-10:4,15]%5 1 5 9 15", ""},
		{"no name but a list", "[1-3]", " [1-3] 1 2 3", ""},
		{"overlapping ranges", "a[3,1-4:1,2]", "a [3,1-4,2] 1 2 3 4", ""},
		{"a range of one", "a[7-7:3]", "a [7] 7", ""},
		{"a step beyond the end", "a[1-3:9]", "a [1-3:9] 1", ""},
		{"A2: a huge step", "a[1-3:4294967296]", "", "Job array index too large"},
		{"A2: a step beyond counting", "a[1-3:99999999999999999999]", "", "Job array index too large"},
		{"blanks in the list", "a[ 1 - 2 , 4 ]", "a [1-2,4] 1 2 4", ""},
		{"the highest index", "a[1000]", "a [1000] 1000", ""},
		{"too high", "a[1-1001]", "", "Job array index too large"},
		{"A1: an index that would wrap to 1 in 32 bits", "a[4294967297]", "", "Job array index too large"},
		{"A1: an end that would", "a[1-4294967297]", "", "Job array index too large"},
		{"A1: far too high", "a[99999999999999999999]", "", "Job array index too large"},
		{"index 0", "a[0-3]", "", "Job array index error"},
		{"backwards", "a[3-1]", "", "Job array index error: 3-1 runs backwards"},
		{"step 0", "a[1-3:0]", "", "Job array index error"},
		{"a step without a range", "a[1:2]", "", "Job array index error: a step needs a range"},
		{"empty list", "a[]", "", "Job array index error"},
		{"a word as index", "a[x]", "", "Job array index error"},
		{"negative", "a[-3]", "", "Job array index error"},
		{"no closing bracket", "a[1-3", "", "Job array index error"},
		{"text after the list", "a[1-3]b", "", "Job array index error: only %limit"},
		{"limit 0", "a[1-3]%0", "", "Job array index error: want a limit"},
		{"a limit of words", "a[1-3]%x", "", "Job array index error: want a limit"},
		{"a newline in the name", "a\nb", "", "control character"},
		{"an escape in the name", "a\x1b[31m", "", "control character"},
		{"broken UTF-8", "a\xff", "", "not valid UTF-8"},
		{"a slash first", "/a", "", "must not begin"},
		{"4094 bytes", strings.Repeat("x", 4094), strings.Repeat("x", 4094), ""},
		{"4095 bytes", strings.Repeat("x", 4095), "", "at most 4094"},
		{"too many ranges", "a[" + strings.Repeat("1,", 1000) + "1]", "", "at most 1000 ranges"},
	} {
		name, a, err := ParseJobName(c.in, 1000)
		got := name
		if a != nil {
			got += " " + a.String() + " " + strings.Trim(fmt.Sprint(a.Indices()), "[]")
			if a.Count() != len(a.Indices()) {
				t.Errorf("%s: Count is %d of %v", c.name, a.Count(), a.Indices())
			}
		}
		check(t, c.name, got, c.want, err, c.err)
	}
}

func TestArrayOfStoredRangesIsBounded(t *testing.T) {
	a := &Array{Ranges: []Range{{First: -5, Last: 1 << 60, Step: 1 << 62}, {First: 3, Last: 3}}}
	if got := a.Indices(); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("got %v", got)
	}
	if n := (&Array{}).Count(); n != 0 {
		t.Errorf("no ranges count %d", n)
	}
}

func TestParseArrayLimit(t *testing.T) {
	got, err := ParseArrayLimit("%12")
	check(t, "a limit", got, 12, err, "")
	_, err = ParseArrayLimit("12")
	check(t, "without the sign", 0, 0, err, "want %n")
}

func TestParseElements(t *testing.T) {
	for _, c := range []struct {
		name, in, want, err string
	}{
		{"a job", "123", "123", ""},
		{"an element", "123[4]", "123[4]", ""},
		{"elements", "123[1-3,7]", "123[1-3,7]", ""},
		{"all jobs", "0", "0", ""},
		{"by name", `"name[3]"`, "name[3]", ""},
		{"by name without quotes", "name[1-3]", "name[1-3]", ""},
		{"a word", "abc", "", "abc: Illegal job ID."},
		{"two noughts must not mean all", "00", "", "00: Illegal job ID."},
		{"a leading nought", "0123", "", "Illegal job ID."},
		{"an element of all", "0[1]", "", "Illegal job ID."},
		{"negative", "-1", "", "-1: Illegal job ID."},
		{"a sign", "+1", "", "Illegal job ID."},
		{"empty", "", "", `"": Illegal job ID.`},
		{"too large", "99999999999999999999", "", "Illegal job ID."},
		{"not closed", "123[4", "", "Illegal job ID."},
		{"text after the list", "123[4]x", "", "Illegal job ID."},
		{"index 0", "123[0]", "", "Job array index error"},
		{"no index", "123[]", "", "Job array index error"},
		{"a limit", "123[1]%5", "", "Illegal job ID."},
	} {
		got, err := ParseElements(c.in)
		check(t, c.name, got.String(), c.want, err, c.err)
		if err == nil && got.All() != (c.in == "0") {
			t.Errorf("%s: All is %v", c.name, got.All())
		}
	}
}

func FuzzParseJobName(f *testing.F) {
	for _, s := range []string{"train", "a[1-10:2,15]%5", "[1-5]", "'x[1]'", "a[[1]]", "a[1]%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, a, err := ParseJobName(s, 5000)
		if err != nil || a == nil {
			return
		}
		all := a.Indices()
		if len(all) == 0 || len(all) != a.Count() || !slices.IsSorted(all) || all[0] < 1 || all[len(all)-1] > a.Last() {
			t.Fatalf("%q gives %v", s, all)
		}
		// The name is fuzz too, and its quotes may pair up with nothing; the list must survive.
		_, again, err := ParseJobName("n"+a.String(), 5000)
		if err != nil || again.String() != a.String() || !slices.Equal(again.Indices(), all) {
			t.Fatalf("%q: %q and %s read back as %v (%v)", s, name, a, again, err)
		}
	})
}

func FuzzParseElements(f *testing.F) {
	for _, s := range []string{"123", "123[1-3,7]", "0", `"name[3]"`, "a]b[1]", "12[1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseElements(s)
		if err != nil {
			return
		}
		again, err := ParseElements(r.String())
		if err != nil || again.String() != r.String() || again.Job != r.Job || again.Name != r.Name {
			t.Fatalf("%q gives %s, which reads back as %s (%v)", s, r, again, err)
		}
	})
}
