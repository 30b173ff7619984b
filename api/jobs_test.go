package api_test

import (
	"slices"
	"testing"

	"fairslice/api"
	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/nodes"
	"fairslice/queue"
)

// Who waits for his image on a node is told so where the reasons of what waits are asked for, and nowhere else.
func TestAnImageThatIsFetchedIsAReason(t *testing.T) {
	s := newSite(t, api.HubConfig{}, api.Config{})
	for id, at := range map[queue.JobID]struct {
		state   queue.State
		attempt int
	}{1: {queue.Pend, 0}, 2: {queue.Run, 3}, 3: {queue.Run, 1}} {
		s.engine.change(id, func(j *queue.Job) {
			j.Spec = &queue.Spec{Image: "ada/python:3.11"}
			if j.Elements[0].State = at.state; at.attempt > 0 {
				j.Elements[0].Attempt = &queue.Attempt{Number: at.attempt, Alloc: []nodes.Allocation{{Node: "n1", Slots: 1}}}
			}
		})
	}
	up, _ := s.node(s.unix(), newAgent("n1"))
	beat := func(fetches ...queue.AttemptFetch) {
		t.Helper()
		if err := up.Heartbeat(queue.Heartbeat{Fetches: fetches}); err != nil {
			t.Fatal(err)
		}
		s.called("heartbeat n1")
	}
	u := s.users(s.unix())
	listed := func(scope queue.Scopes, reasons bool) (out []int64, fetching *pb.Job) {
		t.Helper()
		req := &pb.JobsRequest{Select: wire.FromSelection(queue.Selection{Scope: scope}), Reasons: reasons}
		if err := u.Jobs(deadline(t), req, func(p *pb.JobsResponse) error {
			for _, j := range p.Jobs {
				if out = append(out, j.Id); j.Id == 2 {
					fetching = j
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return out, fetching
	}
	beat(queue.AttemptFetch{ID: queue.ElementID{Job: 2}, Attempt: 3, Done: 37, Total: 100}, queue.AttemptFetch{ID: queue.ElementID{Job: 3}, Attempt: 7, Done: 1, Total: 2})
	ids, j := listed(queue.ScopePending, true) // bjobs -p
	if !slices.Equal(ids, []int64{1, 2}) || j.State != "RUN" || len(j.Reasons) != 1 || j.Reasons[0].Kind != "image" ||
		j.Reasons[0].Text != "PROV: the image ada/python:3.11 is being fetched, 37 %" || !slices.Equal(j.Reasons[0].Nodes, []string{"n1"}) {
		t.Errorf("what waits: %v, %v", ids, j)
	}
	if ids, _ := listed(queue.ScopePending, false); !slices.Equal(ids, []int64{1}) {
		t.Errorf("what is pending, without reasons: %v", ids)
	}
	if ids, j := listed(queue.ScopeRunning, true); !slices.Equal(ids, []int64{2, 3}) || len(j.Reasons) != 1 {
		t.Errorf("what runs: %v, %v", ids, j)
	}
	w, err := u.Why(deadline(t), queue.Selection{})
	if err != nil || len(w.Jobs) != 2 || w.Jobs[1].Job.Id != 2 || w.Jobs[1].Job.Reasons[0].Kind != "image" || w.Jobs[1].Ahead != 0 {
		t.Errorf("bwhy: %v, %v", w, err)
	}
	if w, err = u.Why(deadline(t), queue.Selection{IDs: []string{"2"}, Scope: queue.ScopePending}); err != nil || len(w.Jobs) != 1 || len(w.NotFound) > 0 {
		t.Errorf("bjobs -p of its number: %v, %v", w, err)
	}

	beat() // it has arrived
	if ids, _ := listed(queue.ScopePending, true); !slices.Equal(ids, []int64{1}) {
		t.Errorf("with the image: %v", ids)
	}
}
