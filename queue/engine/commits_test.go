package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairslice/images"
	"fairslice/queue"
)

// A session becomes an image of its owner: asked for by him alone, once at a time, approved, and made in one transaction.
func TestCommitsOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Queues[0].OverlaySize, cfg.ApproveCommits = 1<<30, true
		s := newSiteOn(t, newMemory(), queue.NewBook(), cfg)
		defer s.stop()
		ctx := context.Background()
		do := func(words string) {
			t.Helper()
			if out, ok := s.do(strings.Fields(words)); !ok {
				t.Fatalf("%s: %s", words, out)
			}
			synctest.Wait()
		}
		wants := func(err error, text string) {
			t.Helper()
			if err == nil && text != "" || err != nil && (text == "" || !strings.Contains(err.Error(), text)) {
				t.Errorf("%v, want %q", err, text)
			}
		}
		submit := func(image, queue string, writable bool) error {
			sub := imageJob("ada", image)
			sub.Spec.Writable, sub.Spec.Queue = writable, queue
			_, err := s.e.Submit(ctx, sub)
			synctest.Wait()
			return err
		}
		do("join n1=8")
		wants(submit("base", "short", true), "short: Queue gives no writable images")
		wants(submit("", "normal", true), "no image to change")
		wants(submit("base", "normal", true), "")
		wants(submit("base", "normal", false), "")
		do("report n1 1#1 began")
		do("report n1 2#1 began")
		one, two := queue.ElementID{Job: 1}, queue.ElementID{Job: 2}
		ref := images.Ref{Name: "tools", Tag: "1"}
		ask := func(who string, id queue.ElementID, ref images.Ref) (*images.Commit, error) {
			return s.e.RequestCommit(ctx, identity(who), id, ref, "", false)
		}
		_, err := ask("eve", one, ref)
		wants(err, "No matching job")
		_, err = ask("ada", two, ref)
		wants(err, "-writable")
		_, err = ask("ada", one, images.Ref{Owner: "eve", Name: "x", Tag: "1"})
		wants(err, "an image of its owner")
		c, err := ask("ada", one, ref)
		wants(err, "")
		if c.State != images.CommitAsked || c.Ref.Owner != "ada" {
			t.Errorf("asked: %+v", c)
		}
		_, err = ask("ada", one, images.Ref{Name: "other", Tag: "1"})
		wants(err, "open already")
		_, err = s.e.DecideCommit(ctx, identity("ada"), c.ID, true, "")
		wants(err, "permission denied")
		_, err = s.e.CompleteCommit(ctx, c.ID, imageOf("x:1", "a", nil))
		wants(err, "not being worked on")
		_, err = s.e.DecideCommit(ctx, identity("root"), c.ID, true, "")
		wants(err, "")
		i, err := s.e.CompleteCommit(ctx, c.ID, imageOf("x:1", "a", nil))
		wants(err, "")
		if i.Ref.String() != "ada/tools:1" || i.Visibility != images.Private {
			t.Errorf("the image: %+v", i)
		}
		_, err = s.e.CompleteCommit(ctx, c.ID, imageOf("x:1", "b", nil))
		wants(err, "not being worked on")
		_, err = ask("ada", one, ref)
		wants(err, "already")

		// One whose session ends fails, but when all of it was read before.
		late, err := ask("ada", one, images.Ref{Name: "late", Tag: "1"})
		wants(err, "")
		_, err = s.e.DecideCommit(ctx, identity("root"), late.ID, true, "")
		wants(err, "")
		s.e.KeepCommit(late.ID, true)
		do("report n1 1#1 ended:0")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		_, err = s.e.CompleteCommit(ctx, late.ID, imageOf("x:1", "c", nil))
		wants(err, "")
		s.checkStored()
	})
}

func TestACommitFailsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Queues[0].OverlaySize = 1 << 30
		s := newSiteOn(t, newMemory(), queue.NewBook(), cfg)
		defer s.stop()
		ctx := context.Background()
		sub := imageJob("ada", "base")
		sub.Spec.Writable = true
		if _, ok := s.do([]string{"join", "n1=8"}); !ok {
			t.Fatal("no node")
		}
		if _, err := s.e.Submit(ctx, sub); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if out, ok := s.do([]string{"report", "n1", "1#1", "began"}); !ok {
			t.Fatal(out)
		}
		c, err := s.e.RequestCommit(ctx, identity("ada"), queue.ElementID{Job: 1}, images.Ref{Name: "tools", Tag: "1"}, "", false)
		if err != nil || c.State != images.CommitApproved { // nobody is asked here
			t.Fatalf("%+v, %v", c, err)
		}
		if out, ok := s.do([]string{"report", "n1", "1#1", "ended:0"}); !ok {
			t.Fatal(out)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		list, err := s.e.Commits(identity("ada"), false)
		if err != nil || len(list) != 1 || list[0].State != images.CommitFailed || !strings.Contains(list[0].Reason, "ended") {
			t.Errorf("%+v, %v", list[0], err)
		}
		if _, err := s.e.CompleteCommit(ctx, c.ID, imageOf("x:1", "a", nil)); err == nil {
			t.Error("an image comes of a request that is over")
		}
		s.checkStored()
	})
}
