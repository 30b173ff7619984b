package etc

import (
	"strings"
	"testing"
)

func TestAccountingIsRead(t *testing.T) {
	c, err := Parse("x", []byte("[accounting]\nkeep = \" 2 years \"\narchive_dir = \"/a\"\nmonthly_dir = \"/m\"\n"))
	if err != nil || c.Accounting != (Accounting{24, "/a", "/m"}) {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := Parse("x", nil); err != nil || c.Accounting != (Accounting{}) {
		t.Errorf("by default %+v, %v", c.Accounting, err)
	}
	for _, row := range []struct{ text, want string }{
		{"keep = \"24 months\"", "x:2:1: accounting.keep: needs the key archive_dir"},
		{"keep = 24\narchive_dir = \"/a\"", `want a number of months or years, such as "24 months" or "2 years", or "" for ever; got 24`},
		{"keep = \"24\"\narchive_dir = \"/a\"", `got "24"`}, {"keep = \"0 months\"\narchive_dir = \"/a\"", `got "0 months"`},
		{"keep = \"-1 months\"\narchive_dir = \"/a\"", `got "-1 months"`}, {"keep = \"1 day\"\narchive_dir = \"/a\"", `got "1 day"`},
		{"keep = \"99999999999999999999 years\"\narchive_dir = \"/a\"", "more than 100 years"}, {"keep = \"101 years\"\narchive_dir = \"/a\"", "more than 100 years"},
		{"archive_dir = \"a\"", "want an absolute path"}, {"monthly_dir = \"m\"", "want an absolute path"},
	} {
		if _, err := Parse("x", []byte("[accounting]\n"+row.text+"\n")); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %q", row.text, err, row.want)
		}
	}
	made := Default()
	made.Accounting.Keep = -1
	if err := made.Validate(); err == nil {
		t.Error("a negative time is kept")
	}
}

// What is read is a whole number of months from 1 to 1200, or nothing.
func FuzzParseMonths(f *testing.F) {
	for _, s := range []string{"", "24 months", "1 month", "2  years", "months", "1e3 months", "٣ months", "1200 months"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := parseMonths(s)
		if err != nil && n != 0 || n < 0 || n > maxMonths || err == nil && (n == 0) != (s == "") {
			t.Errorf("%q gave %d, %v", s, n, err)
		}
	})
}
