package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"fairslice/nodes"
	"fairslice/queue"
)

// budgetPolicies are of two accounts, one below the other, with budgets that a few jobs fill.
var budgetPolicies = []string{
	"account lab\naccount chem parent=lab\nuser ada account=lab\nuser eve account=chem\nbudget account=lab fgpu_hours=0.3 period=month hard\n",
	"account lab\naccount chem parent=lab\nuser ada account=lab\nuser eve account=chem\nbudget account=lab fgpu_hours=1.5 period=month hard\nbudget account=chem gpu_hours=0.2 period=until:2000-01-01 hard\n",
	"account lab\nuser ada account=lab\nbudget account=lab fgpu_hours=0.1 period=quarter soft\nbudget account=root fgpu_hours=0.8 period=month from=2000-01-01 hard\n",
}

// TestBudgetsHoldWhateverHappens is TestWhateverHappens under budgets that a few jobs fill: no start takes one over its total,
// and what the writer has kept of what was spent is what the charges say, also after restarts and in the midst of changes.
func TestBudgetsHoldWhateverHappens(t *testing.T) {
	waited := 0
	rapid.Check(t, func(r *rapid.T) {
		var failed any
		synctest.Test(t, func(*testing.T) {
			defer func() { failed = recover() }()
			waited += underBudgets(r)
		})
		switch {
		case failed == nil:
		case fmt.Sprintf("%T", failed) == "rapid.invalidData":
			panic(failed)
		default:
			r.Fatalf("%v", failed)
		}
	})
	if waited < 20 {
		t.Errorf("jobs waited for a budget %d times: the test looks at too little", waited)
	}
}

// underBudgets plays one world, and says how often something waited for a budget.
func underBudgets(t *rapid.T) (waited int) {
	w := &world{t: t, store: newMemory(), fleet: &fleet{nodes: map[nodes.ID]*daemon{}}, tokens: map[string]queue.JobID{}}
	for _, line := range []string{"a=9,gpu=4", "b=2,lic=1", "far=9,gpu=2"} {
		h := hello([]string{line})
		w.fleet.nodes[h.Node.ID] = &daemon{hello: h, attempts: map[string]*attempt{}}
	}
	w.start(queue.NewBook())
	defer func() { w.stop() }()
	for _, node := range []nodes.ID{"a", "b", "far"} {
		w.join(node)
	}
	w.setPolicy(one(t, budgetPolicies, "policy"))
	for range 5 + uniform(t, 40, "steps") {
		switch n := uniform(t, 100, "step"); {
		case n < 35:
			words := []string{one(t, []string{"ada", "eve"}, "user"), one(t, []string{"fgpu=0.5", "fgpu=1", "gpus=1"}, "gpu"), one(t, []string{"limit=5m", "limit=12m"}, "limit")}
			for _, word := range []string{"array=1-3", "rerun"} {
				if uniform(t, 4, word) == 0 {
					words = append(words, word)
				}
			}
			if acc, err := w.e.Submit(ctx, submission(words)); err == nil {
				w.acked = append(w.acked, acc.Job)
			}
		case n < 70:
			w.act()
		case n < 80:
			w.control()
		case n < 83:
			w.setPolicy(one(t, budgetPolicies, "policy"))
		case n < 87:
			w.comeAndGo()
		case n < 90:
			w.restart()
			for _, node := range []nodes.ID{"a", "b", "far"} {
				w.join(node)
			}
		default:
			time.Sleep(time.Duration(one(t, []int{1, 70, 700}, "seconds")) * time.Second)
		}
		w.store.rest()
		w.check()
		w.e.View(func(v queue.View) {
			v.Book().Each(func(j *queue.Job) bool {
				if why, _ := v.Why(j, &j.Elements[0]); len(why) > 0 && why[0].Kind == queue.ReasonBudget {
					waited++
				}
				return true
			})
		})
	}
	return waited
}
