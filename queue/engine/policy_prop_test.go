package engine_test

import (
	"fmt"
	"slices"

	"fairslice/accounting"
	"fairslice/nodes"
	"fairslice/queue"
)

// keptLimits replays stored events beside a count of its own, and says which start went over a limit that was in force.
func keptLimits(events []queue.Event) error {
	policy := &accounting.Policy{}
	jobs := map[queue.JobID]*queue.Submitted{}
	type run struct {
		job  queue.JobID
		body *queue.Started
	}
	live := map[queue.ElementID]run{}
	in := map[queue.JobID]string{} // the queue of each job
	for _, ev := range events {
		id := queue.ElementID{Job: ev.Job, Index: ev.Index}
		switch body := ev.Body.(type) {
		case *queue.PolicySet:
			p, err := accounting.ParsePolicy(body.Text)
			if err != nil {
				return err
			}
			policy = p
		case *queue.Submitted:
			jobs[ev.Job], in[ev.Job] = body, body.Queue
		case *queue.Switched:
			in[ev.Job] = body.Queue
		case *queue.Ended, *queue.Requeued:
			delete(live, id)
		case *queue.Started:
			live[id] = run{ev.Job, body}
			for _, l := range policy.Limits {
				under := func(job queue.JobID) bool {
					j := jobs[job]
					account := j.Spec.Account
					if account == "" || !policy.Flat() && !policy.Has(account) {
						account = policy.DefaultOf(j.Owner.User)
					}
					switch l.Scope.Kind {
					case accounting.All:
						return true
					case accounting.EachUser: // of the one that starts now
						_, own := policy.LimitOf(accounting.Scope{Kind: accounting.ForUser, Name: j.Owner.User})
						return !own && j.Owner.User == jobs[ev.Job].Owner.User
					case accounting.ForUser:
						return j.Owner.User == l.Scope.Name
					case accounting.ForQueue:
						return in[job] == l.Scope.Name
					}
					return l.Scope.Kind == accounting.ForAccount && slices.Contains(policy.Above(account), l.Scope.Name)
				}
				if !under(ev.Job) {
					continue
				}
				var n, slots, memory, fgpu int64
				for _, r := range live {
					if !under(r.job) {
						continue
					}
					n++
					for _, a := range r.body.Alloc {
						slots, memory, fgpu = slots+int64(a.Slots), memory+a.Memory, fgpu+int64(a.FGPU())
					}
				}
				for what, x := range map[string][2]int64{"running": {n, l.Running}, "slots": {slots, l.Slots}, "memory": {memory, l.Memory}, "fgpu": {fgpu, int64(l.FGPU)}} {
					// What needs nothing of it may start beside what was there before the limit.
					if x[1] != accounting.NoLimit && x[0] > x[1] && (what != "fgpu" || fgpuOf(body) > 0) && (what != "memory" || memoryOf(body) > 0) {
						return fmt.Errorf("event %d starts %s, and %d %s are under %q", ev.Seq, id, x[0], what, l)
					}
				}
			}
		}
	}
	return nil
}

// keptQueues is keptLimits for the slots that the configuration gives a queue and each user in it.
func keptQueues(events []queue.Event) error {
	owner, in := map[queue.JobID]string{}, map[queue.JobID]string{}
	live := map[queue.ElementID]int{}
	for _, ev := range events {
		id := queue.ElementID{Job: ev.Job, Index: ev.Index}
		switch body := ev.Body.(type) {
		case *queue.Submitted:
			owner[ev.Job], in[ev.Job] = body.Owner.User, body.Queue
		case *queue.Switched:
			in[ev.Job] = body.Queue
		case *queue.Ended, *queue.Requeued:
			delete(live, id)
		case *queue.Started:
			for _, a := range body.Alloc {
				live[id] += a.Slots
			}
			all, own := 0, 0
			for other, slots := range live {
				if in[other.Job] == in[ev.Job] {
					all += slots
					if owner[other.Job] == owner[ev.Job] {
						own += slots
					}
				}
			}
			for _, q := range config().Queues {
				if q.Name == in[ev.Job] && (q.MaxSlots > 0 && all > q.MaxSlots || q.UserSlots > 0 && own > q.UserSlots) {
					return fmt.Errorf("event %d starts %s in queue %s, which then has %d slots, %d of this user", ev.Seq, id, q.Name, all, own)
				}
			}
		}
	}
	return nil
}

func fgpuOf(s *queue.Started) (n nodes.Amount) {
	for _, a := range s.Alloc {
		n += a.FGPU()
	}
	return n
}

func memoryOf(s *queue.Started) (n int64) {
	for _, a := range s.Alloc {
		n += a.Memory
	}
	return n
}

// policies are what the random world is under, now and then.
var policies = []string{
	"", "limit all running=3\nlimit each-user slots=4 pending=6\n", "account lab\nuser ada account=lab\nlimit account=lab running=1 fgpu=1\n",
	"limit user=ada running=2 memory=1g wall=30\nlimit queue=again sessions=1 slots=3 rate=5/m\n", "account lab\naccount chem parent=lab\nuser eve account=chem\nlimit account=lab slots=2\n",
	budgetPolicies[1], budgetPolicies[2],
}

func (w *world) setPolicy(text string) {
	base := int64(0)
	w.e.View(func(v queue.View) { base = v.Book().Policy.Version })
	if _, err := w.e.SetPolicy(ctx, queue.PolicyChange{Base: base, Text: text, By: identity("root")}); err != nil {
		w.t.Fatal(err)
	}
}
