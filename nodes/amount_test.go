package nodes

import (
	"strings"
	"testing"
)

func TestParseAmount(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     Amount
		err      string
	}{
		{"half an fGPU", "0.5", 50, ""},
		{"without the nought", ".5", 50, ""},
		{"two decimals", "1.25", 125, ""},
		{"whole ones", "2", 200, ""},
		{"trailing noughts say nothing", "2.00", 200, ""},
		{"leading noughts neither", "007", 700, ""},
		{"the smallest", "0.01", 1, ""},
		{"the largest", "10000", 1_000_000, ""},
		{"a hundredth above the largest", "10000.01", 0, "more than 10000"},
		{"far above it", "99999999999999999999", 0, "more than 10000"},
		{"nothing", "0", 0, "more than 0"},
		{"nothing with decimals", "0.00", 0, "more than 0"},
		{"no text", "", 0, "empty"},
		{"a point alone", ".", 0, "empty"},
		{"a point at the end", "1.", 0, "at most two decimals"},
		{"three decimals", "0.125", 0, "at most two decimals"},
		{"a sign", "-1", 0, "want a number"},
		{"a plus", "+1", 0, "want a number"},
		{"an exponent", "1e2", 0, "want a number"},
		{"two points", "1.2.3", 0, "at most two decimals"},
		{"a blank", " 1", 0, "want a number"},
		{"a comma", "0,5", 0, "want a number"},
		{"a digit of another script", "\u0661", 0, "want a number"},
	} {
		got, err := ParseAmount(c.in)
		switch {
		case c.err == "" && (err != nil || got != c.want):
			t.Errorf("%s: %q gives %d, %v; want %d", c.name, c.in, got, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %q gives %d, %v; want an error with %q", c.name, c.in, got, err, c.err)
		}
	}
}

func TestAmountString(t *testing.T) {
	for a, want := range map[Amount]string{0: "0", 1: "0.01", 10: "0.1", 50: "0.5", 100: "1", 125: "1.25", 1000: "10", -50: "-0.5"} {
		if got := a.String(); got != want {
			t.Errorf("%d hundredths print as %q, want %q", int64(a), got, want)
		}
	}
}

// What is parsed prints as something that parses to the same.
func FuzzParseAmount(f *testing.F) {
	for _, s := range []string{"0.5", "2", "1.25", ".1", "10000", "0", "-1", "1.", "0.001"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAmount(s)
		if err != nil {
			return
		}
		if a <= 0 || a > maxAmount {
			t.Fatalf("%q gives %d", s, a)
		}
		if again, err := ParseAmount(a.String()); err != nil || again != a {
			t.Fatalf("%q gives %d, whose text %q gives %d, %v", s, a, a, again, err)
		}
	})
}
