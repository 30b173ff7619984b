package api_test

import (
	"context"
	"reflect"
	"testing"

	"fairslice/api"
	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/queue"
)

func TestShares(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	u := s.users(s.tls(api.UserToken, "daemon"))
	got, err := u.Shares(deadline(t), "ada", "lab/bob")
	if err != nil {
		t.Fatal(err)
	}
	want, _ := s.engine.Shares(context.Background(), []string{"ada", "lab/bob"})
	is := wire.ToShares(got)
	if is.At = is.At.UTC(); !is.At.Equal(want.At) {
		t.Errorf("at %s, want %s", is.At, want.At)
	}
	is.At = want.At
	if !reflect.DeepEqual(is, want) {
		t.Errorf("got  %+v\nwant %+v", is, want)
	}
}

func TestWhatWaitsHasAPriority(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	s.engine.change(1, func(j *queue.Job) { j.Elements[0].State = queue.Pend })
	w, err := s.users(s.tls(api.UserToken, "daemon")).Why(deadline(t), queue.Selection{})
	if err != nil || len(w.Jobs) != 1 {
		t.Fatal(w, err)
	}
	turn := w.Jobs[0].Job.Turn
	want := &pb.PriorityPart{Name: "age", Weight: 2, Factor: .5, Points: 1}
	if turn.GetQueue() != 30 || turn.GetUser() != 2 || turn.GetTotal() != 1 || len(turn.GetParts()) != 1 || turn.Parts[0].String() != want.String() {
		t.Errorf("%v", turn)
	}
}
