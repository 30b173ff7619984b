package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairslice/queue"
	"fairslice/queue/engine"
)

// extend is bextend: "until 2h0m0s: 3h0m0s", or what is the longest and why.
func extend(e *engine.Engine, args []string) (string, bool) {
	q := queue.Extend{ID: args[1], By: identity(args[0])}
	d, _ := time.ParseDuration(strings.TrimPrefix(args[2], "+"))
	if q.RunLimit = d; args[2][0] == '+' {
		q.Add, q.RunLimit = d, 0
	}
	x, err := e.Extend(ctx, q)
	switch {
	case err != nil:
		return err.Error(), false
	case !x.Granted:
		return fmt.Sprintf("no more than %s: %s", x.Longest, x.Why), false
	}
	return fmt.Sprintf("%s until %s", x.RunLimit, x.Ends.Format("15:04:05")), true
}

func TestExtend(t *testing.T) {
	play(t, "its node and whoever waits are told of the new end", `
		join a=1
		submit ada limit=1h
		report a 1#1 began
		sleep 10m
		hub = a assign 1#1
		extend ada 1 +30m = 1h30m0s until 01:30:00
		hub = a 1#1 limit 1h30m0s
		extend ada 1 2h = 2h0m0s until 02:00:00
		submit eve limit=1h
		why 2 = slots ~1h50m0s
		events 1 = submitted started began extended extended
		extend ada 1 +1m = no more than 2h0m0s: a start is promised to another job on host a at Jan  1 02:00:00`)
	play(t, "up to the start that is promised to another job, and to the minute", `
		join a=2
		submit ada limit=1h
		submit eve limit=90m
		submit eve slots=2 limit=1h
		sleep 1s
		extend ada 1 +31m = no more than 1h30m0s: a start is promised to another job on host a at Jan  1 01:30:00
		extend ada 1 90m = 1h30m0s until 01:30:00
		kill eve 3
		extend ada 1 +1h = 2h30m0s until 02:30:00
		report a 1#1 ended:0
		charged 1 = 1: 1 slot-s 0 fGPU-s`)
	play(t, "who may not, what cannot be", `
		join a=9
		submit ada limit=1h
		submit ada
		submit ada array=1-2 limit=1h
		submit ada hold limit=1h
		extend eve 1 +1h = Job <1>: User permission denied
		extend root 1 +1h = 2h0m0s until 02:00:00
		extend ada 2 +1h = Job <2>: it has no run limit: it may run as long as it likes
		extend ada 3 +1h = Job <3>: names 2 jobs; name one, as in 3[1]
		extend ada 3[2] +1h = 2h0m0s until 02:00:00
		extend ada 4 +1h = Job <4>: Job has not started yet: bmod -W changes its run limit
		extend ada 9 +1h = Job <9> is not found
		extend ada x[ +1h = x[: Illegal job ID.
		extend ada 1 1h = Job <1>: its run limit is 2:00 already
		kill ada 1
		extend ada 1 +1h = Job <1>: Job is being terminated
		report a 1#1 ended:15
		extend ada 1 +1h = Job <1>: Job has already finished
		sleep 2h
		extend ada 3[2] +1h = Job <3[2]>: it has reached its run limit`)
	play(t, "queues, limits of the policy and hard budgets bound it, and the nearest is told", `
		join a=9,gpu=4
		submit ada queue=short limit=30m
		extend ada 1 +1h = no more than 1h0m0s: queue short: Cannot exceed queue's hard limit(s)
		policy root 0 account,lab limit,user=ada,wall=45m user,ada,account=lab budget,account=lab,fgpu_hours=2,period=month,hard
		extend ada 1 1h = no more than 45m0s: limit user=ada wall=45m
		policy root 1 account,lab user,ada,account=lab budget,account=lab,fgpu_hours=2,period=month,hard
		submit ada fgpu=1 limit=1h
		submit ada fgpu=1 limit=30m
		extend ada 2 2h = no more than 1h30m0s: budget account=lab fgpu_hours=2 period=month: it has no more left
		extend ada 2 +15m = 1h15m0s until 01:15:00
		budget ada = lab 0.00 spent 1.75 reserved 0.25 left of 2.00
		extend ada 3 +30m = no more than 45m0s: budget account=lab fgpu_hours=2 period=month: it has no more left
		extend ada 3 +15m = 45m0s until 00:45:00
		budget ada = lab 0.00 spent 2.00 reserved 0.00 left of 2.00`)
	play(t, "an advance reservation of others bounds it, and its own", `
		join a=2
		reserve root -u eve -n 2 -m a -b 2:00 -e 3:00
		submit ada limit=1h
		sleep 1s
		extend ada 1 +90m = no more than 2h0m0s: an advance reservation on host a bounds it at Jan  1 02:00:00
		extend ada 1 2h = 2h0m0s until 02:00:00
		mod root 1 -W=121 = ! Job <1>: an advance reservation on host a bounds it at Jan  1 02:00:00; the longest run limit now is 2:00`)
	play(t, "bmod -W of who is no administrator moves no promised start either", `
		join a=1
		submit ada limit=1h
		submit eve limit=1h
		sleep 1s
		mod ada 1 -W=61 = ! Job <1>: a start is promised to another job on host a at Jan  1 01:00:00; the longest run limit now is 1:00
		mod ada 1 -Wn = ! Job <1>: a start is promised to another job on host a at Jan  1 01:00:00; the longest run limit now is 1:00
		why 2 = slots ~1h0m0s
		hub = a assign 1#1
		mod root 1 -W=61 = Parameters of job <1> are being changed
		hub = a 1#1 limit 1h1m0s
		sleep 2s
		why 2 = slots ~1h1m0s
		mod ada 1 -W=30
		hub = a 1#1 limit 30m0s`)
	play(t, "an extension is of one element and one attempt, and stays when something else is changed", `
		join a=4
		submit ada array=1-2 limit=1h rerun
		sleep 1s
		extend ada 1[2] +1h = 2h0m0s until 02:00:00
		mod ada 1 -M=2000
		hub = a assign 1[1]#1; a assign 1[2]#1; a 1[2]#1 limit 2h0m0s; a 1[1]#1 limit 1h0m0s; a 1[2]#1 limit 2h0m0s
		restart
		join a=4 1[1]#1:running 1[2]#1:running
		hub = a 1[2]#1 limit 2h0m0s
		extend ada 1[2] +1h = 3h0m0s until 03:00:00
		report a 1[2]#1 lost
		sleep 1s
		extend ada 1[2] 2h
		mod ada 1 -W=180
		extend ada 1[2] 2h = Job <1[2]>: its run limit is 3:00 already`)
	play(t, "time that it was stopped moves the end", `
		join a=1
		submit ada limit=1h
		report a 1#1 began
		stop ada 1
		report a 1#1 stopped
		sleep 30m
		extend ada 1 +1h = 2h0m0s until 02:30:00`)
	play(t, "a change that the database keeps waiting is told when it is durable, once", `
		join a=1
		submit ada limit=1h
		hub = a assign 1#1
		db fail,ambiguous
		extend ada 1 +1h = 2h0m0s until 02:00:00
		hub = a 1#1 limit 2h0m0s
		events 1 = submitted started extended`)
}
