package store_test

import (
	"fmt"
	"testing"

	"fairslice/queue"
	"fairslice/store/storetest"
)

func TestThePolicyComesBack(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	w := newWriter(t, storetest.OpenURL(t, url))
	w.check() // none was ever set
	w.do(ev(0, 0, &queue.PolicySet{Version: 1, Text: "account lab\n"}))
	w.check()
	// Two in one batch: the last counts, both are in the history.
	w.do(ev(0, 0, &queue.PolicySet{Version: 2, Text: "account \"ü\"\n"}), ev(0, 0, &queue.PolicySet{Version: 3}))
	w.check()
	w.do(ev(0, 0, &queue.QueueSet{Queue: "gpu", Closed: true}))
	w.check()
	if rows := query(t, url, "SELECT version || ' ' || text FROM policy"); fmt.Sprint(rows) != "[3 ]" {
		t.Errorf("the rows are %v", rows)
	}
	for limit, want := range map[int]string{10: "321", 2: "32", 0: ""} {
		list, err := w.s.PolicyEvents(t.Context(), limit)
		got := ""
		for _, ev := range list {
			got += fmt.Sprint(ev.Body.(*queue.PolicySet).Version)
		}
		if err != nil || got != want {
			t.Errorf("the newest %d policies are %s %v, want %s", limit, got, err, want)
		}
	}
}
