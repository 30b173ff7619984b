package engine

import (
	"context"

	"fairslice/accounting"
	"fairslice/queue"
)

// Budgets are those over an account: its own and those of all above it. With "" they are those over all accounts of the one who
// asks, of an administrator all.
func (e *Engine) Budgets(_ context.Context, account string, by queue.Identity) (accounting.BudgetList, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	p := e.held.policy
	var accounts []string
	if !by.Admin {
		for _, m := range p.Places(by.User) {
			accounts = append(accounts, m.Account)
		}
	}
	if account != "" {
		switch {
		case !p.Has(account):
			return accounting.BudgetList{}, refuse("%s: No such account", account)
		case !by.Admin && !above(p, accounts, account):
			return accounting.BudgetList{}, refuse("%s: You are not in this account; yours: %s", account, placesOf(p, by.User))
		}
		accounts = []string{account}
	}
	return e.budgetsAt(e.cfg().Now()).List(accounts), nil
}

// above says whether an account is one of these, or above one.
func above(p *accounting.Policy, accounts []string, account string) bool {
	for _, a := range accounts {
		for _, up := range p.Above(a) {
			if up == account {
				return true
			}
		}
	}
	return false
}

// Figures is what metrics show of accounts. All is as of now, with what runs counted up to now.
type Figures struct {
	Version  int64              // of the policy: when it changes, accounts may have other work than before
	Accounts map[string]float64 // fGPU-seconds of each account of the policy and of default, without those below them
	Queues   map[string]float64 // fGPU-seconds of each queue of the configuration
	Budgets  []accounting.BudgetState
	Factors  map[accounting.Leaf]float64 // fair-share factors of the users of the policy in their accounts, at most maxFactors
}

// maxFactors bounds the users whose factors are told.
const maxFactors = 1000

// Figures reads the book, and works out the fair-share tree if it has accounts.
func (e *Engine) Figures() Figures {
	e.mu.RLock()
	defer e.mu.RUnlock()
	p, now := e.held.policy, e.cfg().Now()
	out := Figures{Version: e.book.Policy.Version, Accounts: map[string]float64{}, Queues: map[string]float64{}}
	accounts, queues := e.budgets.spent.ByAccount(p), e.budgets.spent.ByQueue()
	for _, held := range e.liveElements() {
		w := workOf(held.job, held.element, now)
		cost := accounting.CostOf(int64(w.FGPU), w.Now.Sub(w.Began).Milliseconds())
		place := p.PlaceOf(w.At)
		accounts[place], queues[held.job.Queue] = accounts[place].Plus(cost), queues[held.job.Queue].Plus(cost)
	}
	out.Accounts[accounting.DefaultAccount] = seconds(accounts[accounting.DefaultAccount])
	for _, a := range p.Accounts {
		out.Accounts[a.Name] = seconds(accounts[a.Name])
	}
	for i := range e.cfg().Queues {
		name := e.cfg().Queues[i].Name
		out.Queues[name] = seconds(queues[name])
	}
	for _, s := range e.budgetsAt(now).List(nil).States {
		if s.InForce(now) {
			out.Budgets = append(out.Budgets, s)
		}
	}
	out.Factors = e.sched.factorsOf(p.Members[:min(len(p.Members), maxFactors)])
	return out
}

func seconds(c accounting.Cost) float64 { return c.Hours() * 3600 }

// factorsOf are the fair-share factors of users in their accounts. The caller holds Engine.mu for reading.
func (s *schedule) factorsOf(members []accounting.Member) map[accounting.Leaf]float64 {
	out := map[accounting.Leaf]float64{}
	if len(members) == 0 {
		return out
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ensureUsage()
	tree := s.treeAt(s.e.cfg().Now())
	for _, m := range members {
		l := accounting.Leaf{Account: m.Account, User: m.User}
		out[l] = tree.Factor(l)
	}
	return out
}
