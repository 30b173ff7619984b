package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairslice/queue"
)

// TestSelectionOfATime has one job that has ended, after a minute, and one submitted then that runs.
func TestSelectionOfATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		defer s.stop()
		begin := time.Now()
		for _, line := range []string{"join a=1", "submit ada", "sleep 1m", "report a 1#1 ended:0", "submit ada"} {
			s.do(strings.Fields(line))
			synctest.Wait()
		}
		first, second := begin, begin.Add(time.Minute)
		for _, row := range []struct {
			what         string
			since, until time.Time
			want         string
		}{
			{"without bounds", time.Time{}, time.Time{}, "1 2"},
			{"what ended at the time itself counts", second, time.Time{}, "1 2"},
			{"what had ended before does not; what runs does", second.Add(1), time.Time{}, "2"},
			{"what was submitted at the end does not", time.Time{}, second, "1"},
			{"what was submitted before it does", time.Time{}, second.Add(1), "1 2"},
			{"nothing was submitted so early", time.Time{}, first, ""},
			{"both", second.Add(1), second, ""},
		} {
			var got []string
			s.e.View(func(v queue.View) {
				found, _, err := s.e.Select(v, queue.Selection{User: "all", Scope: queue.ScopeAll, Since: row.since, Until: row.until}, identity("ada"))
				if err != nil {
					t.Error(err)
				}
				for _, f := range found {
					got = append(got, fmt.Sprint(f.Job.ID))
				}
			})
			if strings.Join(got, " ") != row.want {
				t.Errorf("%s: got %v, want %s", row.what, got, row.want)
			}
		}
	})
}
