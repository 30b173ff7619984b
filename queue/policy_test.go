package queue_test

import (
	"testing"

	"fairslice/queue"
)

func TestPoliciesFollowOneAnother(t *testing.T) {
	h := newHistory(t)
	for _, c := range []struct {
		version int64
		text    string
		ok      bool
	}{{1, "a", true}, {1, "b", false}, {3, "c", false}, {0, "d", false}, {2, "", true}, {3, "e", true}} {
		before := h.book.Policy
		err := h.try(0, 0, &queue.PolicySet{Version: c.version, Text: c.text})
		now := h.book.Policy
		switch {
		case (err == nil) != c.ok:
			t.Errorf("version %d: got %v", c.version, err)
		case !c.ok && now != before:
			t.Errorf("version %d was refused and changed the policy to %+v", c.version, now)
		case c.ok && (now.Version != c.version || now.Text != c.text || now.By != "ada" || now.At.IsZero()):
			t.Errorf("version %d gives %+v", c.version, now)
		}
	}
	if !h.book.TakeDirty().Policy || h.book.TakeDirty().Policy {
		t.Error("the policy is dirty once, after it was set")
	}
	if err := h.agrees(); err != nil {
		t.Error(err)
	}
}
