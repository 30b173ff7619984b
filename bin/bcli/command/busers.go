package command

import (
	"slices"
	"strings"

	"fairslice/api/pb"
	"fairslice/bin/bcli/show"
	"fairslice/queue"
	"fairslice/queue/option"
)

func busersCommand() *command {
	return &command{run: busers, Command: option.Command{
		Name: "busers", Usage: "[-w] [-json] [user ... | all]",
		Summary: "counts the job slots of users: waiting, running, suspended",
		Example: "busers          yours\nbusers all      of everybody who has jobs\nbusers alice bob",
		Options: []option.Option{optWide, optJSON, optNoHead},
	}}
}

// load is how many slots of a user's jobs are in which state.
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

func busers(c *call, p *option.Parsed) int {
	u, ok := c.connect()
	if !ok {
		return failed
	}
	names := p.Operands
	all := slices.Contains(names, "all")
	who := "all"
	if len(names) == 0 {
		who = "" // the caller
	}
	of := map[string]*load{}
	caller := ""
	err := u.Jobs(c.ctx, &pb.JobsRequest{Select: &pb.Selection{User: who, Scope: string(queue.ScopeUnfinished)}}, func(page *pb.JobsResponse) error {
		for _, j := range page.Jobs {
			caller = j.GetOwner().GetUser()
			if of[caller] == nil {
				of[caller] = &load{}
			}
			of[caller].add(j)
		}
		return nil
	})
	if err != nil {
		return c.failErr(err)
	}
	switch {
	case all:
		names = names[:0:0]
		for name := range of {
			names = append(names, name)
		}
		slices.Sort(names)
	case len(names) == 0 && caller != "":
		names = []string{caller}
	case len(names) == 0: // no jobs: batchd named nobody
		names = []string{strings.TrimSpace(c.env.Get("USER"))}
	}
	if p.Has("json") {
		return c.document("USERS", nil, len(names), func(doc *show.JSON, i int) {
			l := of[names[i]]
			if l == nil {
				l = &load{}
			}
			doc.Open()
			doc.String("USER/GROUP", names[i])
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
		l := of[name]
		if l == nil {
			l = &load{}
		}
		if p.Has("w") {
			b = show.LeftLong(b, name, 18)
		} else {
			b = show.Left(b, name, 18)
		}
		b = append(b, "     -      -"...) // limits are the policy's: badmin limit
		for _, v := range []int64{l.jobs(), l.pend, l.run, l.ssusp, l.ususp, 0} {
			b = show.RightInt(append(b, ' '), v, 6)
		}
		b = append(b, '\n')
	}
	c.write(b)
	return 0
}
