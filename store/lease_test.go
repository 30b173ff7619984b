package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"fairslice/store"
	"fairslice/store/storetest"
)

func TestOneOfTwoLeads(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	a, b := storetest.OpenURL(t, url), storetest.OpenURL(t, url)
	first, err := a.Campaign(t.Context(), "a", 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 3*time.Second) // longer than the lease: it must have been renewed
	defer cancel()
	if _, err := b.Campaign(short, "b", 2*time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a second leader: %v", err)
	}
	select {
	case <-first.Lost():
		t.Fatal("the first was lost while it could renew")
	default:
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Errorf("a second Release: %v", err)
	}
	select {
	case <-first.Lost():
	default:
		t.Error("a released lease is not lost")
	}
	second, err := b.Campaign(t.Context(), "b", 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if second.Term() != first.Term()+1 {
		t.Errorf("terms %d and %d", first.Term(), second.Term())
	}
	if err := second.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A leader that hears nothing any more knows that it is lost before another one can lead.
func TestACutOffLeaderIsLostBeforeTheNextLeads(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	a, b := storetest.OpenURL(t, url), storetest.OpenURL(t, url)
	const ttl = 2 * time.Second
	first, err := a.Campaign(t.Context(), "a", ttl)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	a.Close() // as if the network were gone: no renewal goes through
	var second *store.Lease
	if second, err = b.Campaign(t.Context(), "b", ttl); err != nil {
		t.Fatal(err)
	}
	select {
	case <-first.Lost():
	default:
		t.Error("two leaders at once")
	}
	if took := time.Since(begin); took > ttl+2*time.Second {
		t.Errorf("the takeover took %v", took)
	}
	_ = first.Release(t.Context()) // its store is closed; the goroutine ends
	if err := second.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAHolderTakesItsOwnLeaseAtOnce(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	a, b := storetest.OpenURL(t, url), storetest.OpenURL(t, url)
	killed, err := a.Campaign(t.Context(), "same", 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	next, err := b.Campaign(t.Context(), "same", 3*time.Second)
	if err != nil || time.Since(begin) > 900*time.Millisecond {
		t.Fatalf("%v after %v", err, time.Since(begin))
	}
	// Were the first one alive, its next renewal would tell it.
	select {
	case <-killed.Lost():
	case <-time.After(3 * time.Second):
		t.Error("the first does not know that it was replaced")
	}
	// And its Release takes nothing from the second.
	if err := killed.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-next.Lost():
		t.Error("the second was lost with the first")
	case <-time.After(1500 * time.Millisecond):
	}
	if err := next.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}
