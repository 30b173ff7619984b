package api_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"fairslice/api"
	"fairslice/api/pb"
)

func TestBudgets(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	got, err := s.users(s.tls(api.UserToken, "daemon")).Budgets(deadline(t), "lab")
	if err != nil {
		t.Fatal(err)
	}
	out := time.Unix(3600, 0).Add(3600 * time.Second * 25 / 80) // 8 h of 10.5 in an hour
	want := &pb.BudgetsResponse{At: 3600e9, Budgets: []*pb.Budget{{Account: "lab by daemon", Unit: "gpu_hours", Period: "month from=1970-01-01", Hard: true,
		To: 36000e9, Hours: 10.5, Spent: 8, Reserved: .5, Left: 2, Out: out.UnixNano(), InForce: true}}}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	got, err = s.users(s.unix()).Budgets(deadline(t), "")
	if err != nil || got.Budgets[0].Account != " by "+me(t)+", admin" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := s.users(s.unix()).Budgets(deadline(t), "nosuch"); err == nil || !strings.Contains(err.Error(), "nosuch: No such account") {
		t.Errorf("got %v", err)
	}
}
