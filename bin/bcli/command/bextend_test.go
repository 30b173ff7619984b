package command

import (
	"strings"
	"testing"
	"time"

	"fairslice/api/pb"
	"fairslice/queue"
)

func TestBextend(t *testing.T) {
	f := &fake{extended: &pb.ExtendResponse{Id: "12[3]", Granted: true, RunLimit: int64(3 * time.Hour), Ends: 1773187200_000000000, Longest: int64(4 * time.Hour), Why: "why"}}
	f.do("bextend 12[3] +1:30").has(t, 0, "Job <12[3]> may run for 3:00, until ", "")
	if got := strings.Join(f.named, " "); got != "12[3] 1h30m0s 0s" {
		t.Errorf("asked for %s", got)
	}
	f.do("bextend -json 12[3] 180").has(t, 0, `"RUN_LIMIT":10800`, "")
	if got := strings.Join(f.named, " "); got != "12[3] 0s 3h0m0s" {
		t.Errorf("asked for %s", got)
	}
	f.extended.Granted, f.extended.Why = false, "a start is promised\x1b"
	f.do("bextend 12 +9").has(t, 1, "", `Job <12[3]> is not extended: a start is promised\x1b. Its run limit is 3:00, until `)
	f.do("bextend 12 +9").has(t, 1, "", "; the longest possible now is 4:00")
	f.do("bextend -json 12 +9").has(t, 1, `"GRANTED":false`, "")
	f.named = nil
	f.do("bextend 12").has(t, 255, "", "bextend: want a job and a time, as in: bextend 1234 +2:00")
	f.do("bextend 12 +0").has(t, 255, "", "want at least one minute")
	f.do("bextend 12 ++2").has(t, 255, "", "want [hour:]minute")
	f.do("bextend 12 2h").has(t, 255, "", "want [hour:]minute")
	f.do("bextend 12 2:00/host").has(t, 255, "", "without a host")
	f.do("bextend x[ 2:00").has(t, 255, "", "x[: Illegal job ID.")
	if f.named != nil {
		t.Errorf("asked for %q", f.named)
	}
}

func FuzzParseExtension(f *testing.F) {
	for _, s := range []string{"+2:00", "90", "+", "++1", "1:2:3", "+1/h", "99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		add, limit, err := parseExtension(s)
		if err == nil && ((add > 0) == (limit > 0) || add < 0 || limit < 0 || max(add, limit) > queue.MaxRunLimit || (add > 0) != strings.HasPrefix(s, "+")) {
			t.Errorf("%q gives %s and %s", s, add, limit)
		}
	})
}
