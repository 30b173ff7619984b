package command

import (
	"strings"

	"fairslice/bin/bcli/show"
	"fairslice/queue"
	"fairslice/queue/option"
)

func brsvaddCommand() *command {
	return &command{run: brsvadd, Command: option.Command{
		Name: "brsvadd", Usage: "[options]",
		Summary: "reserves slots, GPUs or hosts for users during a time (administrators)",
		Example: `brsvadd -n 8 -m "gpu01 gpu02" -u alice -b 6:0 -e 8:0
brsvadd -unit host -m gpu01 -g students -t 5:18:0-5:20:0     every Friday evening
brsvadd -n 2 -m "gpu01 gpu02" -gpu fgpu=0.5 -u "alice bob" -N course -t 9:00-12:00
brsvadd -s -m gpu03 -b 12:24:0:0 -e +24:00                   for maintenance
bsub -U alice#0 ./train.sh                                   run in it`,
		Options: []option.Option{
			{Name: "n", Value: option.Required, Number: true, Arg: "NUMBER", Help: "slots, filled host by host; with -unit host so many of the hosts"},
			{Name: "unit", Value: option.Required, Arg: "slot|host", Help: "reserve slots (default) or whole hosts"},
			{Name: "m", Value: option.Required, Arg: "HOSTS", Help: `hosts in the order of preference: "host1 host2", or all`},
			{Name: "gpu", Value: option.Required, Arg: "OPTIONS", Help: "GPU of each host, too: fgpu=0.5 or num=2"},
			{Name: "u", Value: option.Required, Arg: "USERS", Help: "who may use it: users, or groups", Group: "For whom"},
			{Name: "g", Value: option.Required, Arg: "GROUPS", Help: "groups whose members may use it"},
			{Name: "s", Help: "for nobody: maintenance of whole hosts"},
			{Name: "b", Value: option.Required, Arg: "TIME", Help: "begin: [[[YEAR:]MONTH:]DAY:]HOUR:MINUTE, or +HOUR:MINUTE from now (+0: now)", Group: "When"},
			{Name: "e", Value: option.Required, Arg: "TIME", Help: "end, as seen from the begin"},
			{Name: "t", Value: option.Required, Arg: "WINDOW", Help: "again and again: DAY:HOUR:MINUTE-DAY:HOUR:MINUTE, or without days"},
			{Name: "N", Value: option.Required, Arg: "NAME", Help: "its ID; otherwise USER#0, USER#1 and so on", Group: "Other"},
			{Name: "d", Value: option.Required, Arg: "TEXT", Help: "description"},
		},
	}}
}

func brsvadd(c *call, p *option.Parsed) int {
	if len(p.Operands) > 0 {
		return c.fail("brsvadd: " + show.Clean(p.Operands[0]) + ": not understood; every value follows its option (brsvadd -h has examples)")
	}
	q := queue.ReservationRequest{
		Name: p.Last("N"), Users: strings.Fields(strings.Join(p.All("u"), " ")), System: p.Has("s"), Hosts: strings.Join(p.All("m"), " "),
		GPU: p.Last("gpu"), Begin: p.Last("b"), End: p.Last("e"), Window: p.Last("t"), Description: p.Last("d"),
	}
	for _, name := range strings.Fields(strings.Join(p.All("g"), " ")) {
		q.Groups = append(q.Groups, queue.Group{Name: name})
	}
	switch unit := p.Last("unit"); {
	case unit == "host":
		q.WholeHosts = true
	case unit != "slot" && p.Has("unit"):
		return c.fail("brsvadd: -unit " + show.Clean(unit) + ": want slot or host")
	}
	if p.Has("n") {
		if q.Slots = number(p.Last("n")); q.Slots < 1 {
			return c.fail("brsvadd: -n " + show.Clean(p.Last("n")) + ": Bad processor count: want a number from 1")
		}
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	id, err := u.AddReservation(c.ctx, q)
	if err != nil {
		return c.failErr(err)
	}
	c.print("Reservation " + show.Clean(id) + " is created\n")
	return 0
}

func brsvdelCommand() *command {
	return &command{run: brsvdel, Command: option.Command{
		Name: "brsvdel", Usage: "reservation ...",
		Summary: "deletes reservations (administrators); their jobs that run go on",
		Example: "brsvdel alice#0\nbrsvdel course system#1",
	}}
}

func brsvdel(c *call, p *option.Parsed) int {
	if len(p.Operands) == 0 {
		return c.fail("Reservation ID must be specified.")
	}
	u, ok := c.connect()
	if !ok {
		return failed
	}
	list, err := u.Admin(c.ctx, queue.AdminCommand{Op: "rsvdel", Names: p.Operands})
	if err != nil {
		return c.failErr(err)
	}
	return c.outcomes(list, false)
}

func brsvsCommand() *command {
	return &command{run: brsvs, Command: option.Command{
		Name: "brsvs", Usage: "[options] [reservation ...]",
		Summary: "lists reservations: for whom, what, and when",
		Example: "brsvs\nbrsvs -l alice#0\nbrsvs -json",
		Options: []option.Option{
			{Name: "l", Help: "all about each: status, GPUs, its jobs"}, {Name: "w", Help: "times with the year"}, optJSON, optNoHead,
		},
	}}
}

func brsvs(c *call, p *option.Parsed) int {
	u, ok := c.connect()
	if !ok {
		return failed
	}
	resp, err := u.Reservations(c.ctx, p.Operands...)
	if err != nil {
		return c.failErr(err)
	}
	list := resp.Reservations
	if p.Has("json") {
		return c.document("RESERVATIONS", resp.NotFound, len(list), func(doc *show.JSON, i int) {
			show.ReservationRecord(doc, list[i], resp.TimeZone, &c.style)
		})
	}
	var b []byte
	for i, l := range list {
		switch {
		case p.Has("l"):
			if i > 0 {
				b = append(b, '\n')
			}
			b = show.ReservationLong(b, l, resp.TimeZone, &c.style)
		default:
			if i == 0 && !p.Has("noheader") {
				b = append(b, show.ReservationsHeader...)
			}
			b = show.Reservation(b, l, &c.style, p.Has("w"))
		}
	}
	c.write(b)
	return c.missing(resp.NotFound, len(list), "No reservation found")
}
