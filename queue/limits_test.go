package queue

import (
	"strings"
	"testing"
	"time"
)

const (
	testGiB = int64(1) << 30
	testTiB = int64(1) << 40
)

func TestParseMemory(t *testing.T) {
	for _, c := range []struct {
		name, in string
		unit     int64
		want     int64
		err      string
	}{
		{"a bare number is in the site's unit", "4096", kib, 4 * mib, ""},
		{"another site counts in MB", "4096", mib, 4 * testGiB, ""},
		{"a unit of its own wins", "2G", kib, 2 * testGiB, ""},
		{"KB is K", "64KB", mib, 64 * kib, ""},
		{"GiB in any case", "1giB", kib, testGiB, ""},
		{"decimals as dask writes them", "1.5G", kib, 3 * testGiB / 2, ""},
		{"decimals without a unit", "32.0", testGiB, 32 * testGiB, ""},
		{"part of a byte is rounded up", "0.0001", kib, 1, ""},
		{"LSF's mark of a hard limit", "20GB!", kib, 20 * testGiB, ""},
		{"the largest", "1E", kib, MaxMemory, ""},
		{"a byte more than the largest", "1.0000001EB", kib, 0, "more than 1 EB"},
		{"would overflow", "99999999999999999999999999999999999999999E", kib, 0, "want a number"},
		{"overflow in 39 digits", "999999999999999999999999999999999999999P", kib, 0, "more than 1 EB"},
		{"zero would read as no limit", "0", kib, 0, "0 is no limit"},
		{"empty", "", kib, 0, "want a number"},
		{"only the mark", "!", kib, 0, "want a number"},
		{"negative", "-1", kib, 0, "got -1"},
		{"a word", "unlimited", kib, 0, "MEMLIMIT"},
		{"two points", "1.2.3G", kib, 0, "want a number"},
		{"a point without digits", "1.", kib, 0, "want a number"},
		{"an exponent", "1e3", kib, 0, "one of K M G"},
		{"unknown unit", "5X", kib, 0, "one of K M G T P E"},
		{"a blank inside", "5 G", kib, 0, "one of K M G"},
	} {
		got, err := ParseMemory(c.in, c.unit)
		check(t, c.name, got, c.want, err, c.err)
	}
}

// check compares a parser's result, or part of its error.
func check[T comparable](t *testing.T, name string, got, want T, err error, wantErr string) {
	t.Helper()
	switch {
	case wantErr == "" && err != nil:
		t.Errorf("%s: unexpected error %q", name, err)
	case wantErr != "" && err == nil:
		t.Errorf("%s: got %v, want an error with %q", name, got, wantErr)
	case wantErr != "" && !strings.Contains(err.Error(), wantErr):
		t.Errorf("%s: error %q, want one with %q", name, err, wantErr)
	case wantErr == "" && got != want:
		t.Errorf("%s: got %v, want %v", name, got, want)
	}
}

func TestFormatMemory(t *testing.T) {
	for _, c := range []struct {
		name string
		in   int64
		want string
	}{
		{"nothing", 0, "0 Mbytes"},
		{"a byte", 1, "1 Kbytes"},
		{"kilobytes", 512 * kib, "512 Kbytes"},
		{"megabytes are whole", 9*mib + 100, "9 Mbytes"},
		{"gigabytes have a decimal", 5*testGiB + testGiB/5, "5.2 Gbytes"},
		{"but not a zero", 4 * testGiB, "4 Gbytes"},
		{"terabytes", 3 * testTiB / 2, "1.5 Tbytes"},
		{"the largest", 1<<63 - 1, "8 Ebytes"},
	} {
		check(t, c.name, FormatMemory(c.in), c.want, nil, "")
	}
}

func TestParseRunLimit(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     time.Duration
		err      string
	}{
		{"minutes", "90", 90 * time.Minute, ""},
		{"hours and minutes", "1:30", 90 * time.Minute, ""},
		{"minutes may exceed 59", "60:05", 60*time.Hour + 5*time.Minute, ""},
		{"also after hours", "1:90", 150 * time.Minute, ""},
		{"leading zeros", "00:01", time.Minute, ""},
		{"a host's speed is not used", "10/hostA", 10 * time.Minute, ""},
		{"a year", "8760:00", MaxRunLimit, ""},
		{"a minute more", "8760:01", 0, "more than one year"},
		{"overflow", "99999999999999999999", 0, "more than one year"},
		{"zero", "0:00", 0, "at least one minute"},
		{"seconds", "1:2:3", 0, "seconds"},
		{"empty", "", 0, "RUNLIMIT"},
		{"no minutes", "1:", 0, "want [hour:]minute"},
		{"no hours", ":30", 0, "want [hour:]minute"},
		{"negative", "-5", 0, "want [hour:]minute"},
		{"decimals", "1.5", 0, "want [hour:]minute"},
		{"no host after the slash", "5/", 0, "is no host name"},
	} {
		got, err := ParseRunLimit(c.in)
		check(t, c.name, got, c.want, err, c.err)
	}
}

func TestParseSlots(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     [2]int
		err      string
	}{
		{"one number", "4", [2]int{4, 4}, ""},
		{"a range", "2,8", [2]int{2, 8}, ""},
		{"a comma and nothing", "4,", [2]int{4, 4}, ""},
		{"blanks", " 2 , 8 ", [2]int{2, 8}, ""},
		{"zero", "0", [2]int{}, "at least one slot"},
		{"a word", "four", [2]int{}, "Bad processor count"},
		{"negative", "-4", [2]int{}, "Bad processor count"},
		{"backwards", "8,2", [2]int{}, "more than the most"},
		{"too many", "1000001", [2]int{}, "more than 1000000"},
		{"overflow", "99999999999999999999", [2]int{}, "more than 1000000"},
		{"three numbers", "1,2,3", [2]int{}, "Bad processor count"},
		{"only the most", ",8", [2]int{}, "Bad processor count"},
	} {
		least, most, err := ParseSlots(c.in)
		check(t, c.name, [2]int{least, most}, c.want, err, c.err)
	}
}

func TestParseLimit(t *testing.T) {
	for _, c := range []struct {
		name, letter, in string
		want             int64
		err              string
	}{
		{"no core files", "C", "0", 0, ""},
		{"a stack in KB", "S", "8192", 8 * mib, ""},
		{"no stack is a mistake", "S", "0", 0, "STACKLIMIT"},
		{"CPU time in seconds", "c", "1:30", 5400, ""},
		{"CPU time at a host's speed", "c", "2/hostA", 120, ""},
		{"processes", "p", "100", 100, ""},
		{"no processes", "p", "0", 0, "0 is no limit"},
		{"signed", "p", "+5", 0, "want a number"},
		{"threads", "T", "x", 0, "THREADLIMIT"},
		{"swap with a unit", "v", "1G", testGiB, ""},
		{"case matters: -d is not -D", "d", "1", 0, "want one of -C -c"},
	} {
		got, err := ParseLimit(c.letter, c.in, kib)
		check(t, c.name, got, c.want, err, c.err)
	}
}

func FuzzParseMemory(f *testing.F) {
	for _, s := range []string{"4096", "1.5G", "20GB!", "0.001K", "9E", "1..", "-1", "٣"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseMemory(s, kib)
		if err != nil {
			return
		}
		if n <= 0 || n > MaxMemory {
			t.Fatalf("%q gives %d", s, n)
		}
		FormatMemory(n)
		whole := (n + kib - 1) / kib * kib
		if again, err := ParseMemory(exactSize(whole), 1); whole <= MaxMemory && (err != nil || again != whole) {
			t.Fatalf("%q gives %d, whose text %s gives %d (%v)", s, whole, exactSize(whole), again, err)
		}
	})
}

func FuzzParseRunLimit(f *testing.F) {
	for _, s := range []string{"90", "1:30", "60:05/h", "0", "1:2:3", "999999999999:999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseRunLimit(s); err == nil && (d < time.Minute || d > MaxRunLimit || d%time.Minute != 0) {
			t.Fatalf("%q gives %s", s, d)
		}
		if least, most, err := ParseSlots(s); err == nil && (least < 1 || most < least || most > MaxSlots) {
			t.Fatalf("%q gives %d,%d", s, least, most)
		}
		for letter := range limitOptions {
			if n, err := ParseLimit(letter, s, kib); err == nil && n < 0 {
				t.Fatalf("-%s %q gives %d", letter, s, n)
			}
		}
	})
}
