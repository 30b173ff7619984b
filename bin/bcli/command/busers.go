package command

import (
	"cmp"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"fairslice/accounting"
	"fairslice/api/pb"
	"fairslice/bin/bcli/show"
	"fairslice/queue"
	"fairslice/queue/option"
)

func busersCommand() *command {
	return &command{run: busers, Command: option.Command{
		Name: "busers", Usage: "[-w] [-json] [user ... | account ... | all]",
		Summary: "counts the job slots of users and accounts: allowed, waiting, running, suspended",
		Example: "busers          yours\nbusers all      of everybody who has jobs, and of all accounts\nbusers alice physics",
		Options: []option.Option{optWide, optJSON, optNoHead},
	}}
}

// load is how many slots of a user's or an account's jobs are in which state.
type load struct{ pend, run, ssusp, ususp int64 }

func (l *load) jobs() int64 { return l.pend + l.run + l.ssusp + l.ususp }

func (l *load) add(j *pb.Job) {
	slots := int64(0)
	for _, a := range j.Alloc {
		slots += int64(max(a.Slots, 1))
	}
	if slots == 0 {
		slots = max(int64(j.Slots), int64(j.GetSpec().GetMinSlots()), 1)
	}
	switch queue.State(j.State) {
	case queue.Pend, queue.PSusp:
		l.pend += slots
	case queue.SSusp:
		l.ssusp += slots
	case queue.USusp:
		l.ususp += slots
	default: // what does not answer holds its slots
		l.run += slots
	}
}

// loads are those of all users and accounts under a policy, by their names. An account has what all accounts below it have.
type loads struct {
	policy          *accounting.Policy
	users, accounts map[string]*load
}

func (l *loads) add(j *pb.Job) {
	user := j.GetOwner().GetUser()
	count := func(in map[string]*load, name string) {
		if in[name] == nil {
			in[name] = &load{}
		}
		in[name].add(j)
	}
	count(l.users, user)
	if !l.policy.Flat() {
		for _, name := range l.policy.Above(l.policy.AccountOf(j.GetSpec().GetAccount(), user)) {
			count(l.accounts, name)
		}
	}
}

// isAccount says whether a name is an account's: it is a user's where both have it, as in LSF.
func (l *loads) isAccount(name string) bool {
	_, ok := l.policy.Account(name)
	return ok && l.users[name] == nil
}

func (l *loads) of(name string) *load {
	if l.isAccount(name) {
		return cmp.Or(l.accounts[name], &load{})
	}
	return cmp.Or(l.users[name], &load{})
}

// max is the most job slots that a user's or an account's jobs may have at once; accounting.NoLimit for any number. What limits
// the accounts above, or everybody together, is not in it.
func (l *loads) max(name string) int64 {
	kinds := []accounting.Scope{{Kind: accounting.ForUser, Name: name}, {Kind: accounting.EachUser}}
	if l.isAccount(name) {
		kinds = []accounting.Scope{{Kind: accounting.ForAccount, Name: name}}
	}
	for _, s := range kinds {
		if limit, ok := l.policy.LimitOf(s); ok {
			return limit.Slots
		}
	}
	return accounting.NoLimit
}

func busers(c *call, p *option.Parsed) int {
	u, policy, code := c.sitePolicy("busers")
	if code != 0 {
		return code
	}
	names := p.Operands
	who := "all"
	if len(names) == 0 {
		who = "" // the caller
	}
	of := &loads{policy, map[string]*load{}, map[string]*load{}}
	caller := ""
	err := u.Jobs(c.ctx, &pb.JobsRequest{Select: &pb.Selection{User: who, Scope: string(queue.ScopeUnfinished)}}, func(page *pb.JobsResponse) error {
		for _, j := range page.Jobs {
			caller = j.GetOwner().GetUser()
			of.add(j)
		}
		return nil
	})
	if err != nil {
		return c.failErr(err)
	}
	switch {
	case slices.Contains(names, "all"):
		names = names[:0:0]
		for name := range of.users {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, a := range policy.Accounts {
			if of.isAccount(a.Name) {
				names = append(names, a.Name)
			}
		}
	case len(names) == 0 && caller != "":
		names = []string{caller}
	case len(names) == 0: // no jobs: batchd named nobody
		names = []string{c.me()}
	}
	if p.Has("json") {
		return c.document("USERS", nil, len(names), func(doc *show.JSON, i int) {
			l := of.of(names[i])
			doc.Open()
			doc.String("USER/GROUP", names[i])
			if most := of.max(names[i]); most != accounting.NoLimit {
				doc.Int("MAX", most)
			}
			doc.Int("NJOBS", l.jobs())
			doc.Int("PEND", l.pend)
			doc.Int("RUN", l.run)
			doc.Int("SSUSP", l.ssusp)
			doc.Int("USUSP", l.ususp)
			doc.Close()
		})
	}
	var b []byte
	if !p.Has("noheader") {
		b = append(b, "USER/GROUP          JL/P    MAX  NJOBS   PEND    RUN  SSUSP  USUSP    RSV \n"...)
	}
	for _, name := range names {
		if p.Has("w") {
			b = show.LeftLong(b, name, 18)
		} else {
			b = show.Left(b, name, 18)
		}
		b = append(b, "     - "...) // JL/P, slots for each processor, is no limit here
		if most := of.max(name); most == accounting.NoLimit {
			b = append(b, "     -"...)
		} else {
			b = show.RightInt(b, most, 6)
		}
		l := of.of(name)
		for _, v := range []int64{l.jobs(), l.pend, l.run, l.ssusp, l.ususp, 0} {
			b = show.RightInt(append(b, ' '), v, 6)
		}
		b = append(b, '\n')
	}
	c.write(b)
	return 0
}

// me is the user's own name, where batchd does not say it.
func (c *call) me() string {
	if name := strings.TrimSpace(c.env.Get("USER")); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}
