package engine_test

import "testing"

func TestKill(t *testing.T) {
	play(t, "a job that waits ends at once", `
		submit ada
		kill ada 1 = Job <1> is being terminated
		show 1 = EXIT 0 TERM_OWNER
		kill ada 1 = ! Job <1>: Job has already finished
		hub =`)
	play(t, "a running one by its node, however often it is said", `
		join a=9
		submit ada
		report a 1#1 began
		kill ada 1 = Job <1> is being terminated
		kill ada 1 = Job <1> is being terminated
		show 1 = RUN a#1
		hub = a assign 1#1; a 1#1 kill TERM_OWNER; a 1#1 kill TERM_OWNER
		report a 1#1 ended:15,TERM_OWNER
		show 1 = EXIT 143 TERM_OWNER
		events 1 = submitted started began kill-requested ended`)
	play(t, "by an administrator, by force, as done", `
		join a=9
		submit ada array=1-4
		kill root 1[1]
		kill root 1[2] force
		kill ada 1[3] force
		kill ada 1[4] done
		hub = a assign 1[1]#1; a assign 1[2]#1; a assign 1[3]#1; a assign 1[4]#1; a 1[1]#1 kill TERM_ADMIN; a 1[2]#1 kill TERM_FORCE_ADMIN at-once; a 1[3]#1 kill TERM_FORCE_OWNER at-once; a 1[4]#1 kill TERM_OWNER
		report a 1[4]#1 ended:9,TERM_OWNER
		show 1[4] = DONE 137 TERM_OWNER`)
	play(t, "whose it is not, what is not there, what is no number", `
		submit ada
		kill eve 1 = ! Job <1>: User permission denied
		kill ada 1 9 1 = Job <1> is being terminated; ! Job <9>: No matching job found; ! Job <1>: Job has already finished
		kill ada abc = abc: Illegal job ID.
		kill ada 1[7] = ! Job <1[7]>: No matching job found`)
	play(t, "elements, all of the caller's, by name, the latest", `
		submit ada array=1-4
		kill ada 1[2-3] = Job <1[2]> is being terminated; Job <1[3]> is being terminated
		show 1 = 1:PEND 2:EXIT 0 TERM_OWNER 3:EXIT 0 TERM_OWNER 4:PEND
		submit eve
		submit ada name=x
		kill ada name=x = Job <3> is being terminated
		submit ada name=y1
		submit ada name=y2
		kill ada name=y* latest = Job <5> is being terminated
		kill ada 0 = Job <1> is being terminated; Job <4> is being terminated
		show 2 = PEND
		kill root 0 user=all = Job <2> is being terminated`)
	play(t, "X10: a job whose start is under way", `
		join a=9
		submit ada
		kill ada 1
		report a 1#1 failed:image
		show 1 = EXIT 0 TERM_OWNER`)
	play(t, "signals only signal, except KILL and those that end what waits", `
		join a=9
		submit ada
		signal ada 1 sig=USR1 = Job <1> is being signaled
		signal ada 1 sig=SIGKILL = Job <1> is being terminated
		signal ada 1 sig=NONE = ! Job <1>: "NONE": Bad signal name or number (such as TERM, SIGTERM or 15)
		hub = a assign 1#1; a 1#1 signal USR1; a 1#1 kill TERM_OWNER
		submit ada hold
		signal ada 2 sig=USR1 = ! Job <2>: Job has not started yet
		signal root 2 sig=TERM = Job <2> is being signaled
		show 2 = EXIT 0 TERM_ADMIN`)
	play(t, "a node that does not answer: only by force, and what comes back is ended", `
		join a=9
		submit ada
		submit ada
		report a 1#1 began
		report a 2#1 began
		gone a
		show 1 = UNKWN a#1
		kill ada 1 2
		show 1 = UNKWN a#1
		kill ada 1 force
		show 1 = EXIT 0 TERM_FORCE_OWNER
		hub = a assign 1#1; a assign 2#1; a 1#1 kill TERM_OWNER; a 2#1 kill TERM_OWNER; a 1#1 kill TERM_OWNER at-once
		join a=9 1#1:running 2#1:running
		hub = a 1#1 forget at-once; a 2#1 kill TERM_OWNER
		show 2 = RUN a#1
		report a 1#1 ended:9
		show 1 = EXIT 0 TERM_FORCE_OWNER`)
}

func TestStopAndResume(t *testing.T) {
	play(t, "what waits and what runs", `
		join a=1
		submit ada
		submit ada
		stop ada 1 2 = Job <1> is being stopped; Job <2> is being stopped
		show 1 = USUSP a#1
		show 2 = PSUSP
		stop ada 1 2 = ! Job <1>: Job has already been stopped; ! Job <2>: Job has already been stopped
		why 2 = held
		report a 1#1 stopped
		resume ada 1 2 = Job <1> is being resumed; Job <2> is being resumed
		show 1 = RUN a#1
		show 2 = PEND
		resume ada 1 = ! Job <1>: Job is not suspended
		hub = a assign 1#1; a 1#1 stop; a 1#1 resume
		report a 1#1 ended:0
		stop ada 1 = ! Job <1>: Job has already finished
		resume ada 1 = ! Job <1>: Job has already finished
		resume eve 2 = ! Job <2>: User permission denied`)
	play(t, "a job that stops by itself", `
		join a=1
		submit ada
		report a 1#1 stopped
		show 1 = USUSP a#1
		report a 1#1 stopped
		report a 1#1 resumed
		show 1 = RUN a#1
		events 1 = submitted started suspended resumed`)
	play(t, "time spent stopped does not count against the limit", `
		join a=1
		submit ada limit=1h
		submit ada limit=1h
		report a 1#1 began
		why 2 = slots ~1h0m0s
		stop ada 1
		sleep 30m
		why 2 = slots ~1h0m0s
		resume ada 1
		sleep 30m
		why 2 = slots ~30m0s`)
	play(t, "what was said while the node was away is said again", `
		join a=9
		submit ada
		submit ada
		report a 1#1 began
		report a 2#1 began
		stop ada 2
		report a 2#1 stopped
		stop ada 1
		resume ada 2
		hub = a assign 1#1; a assign 2#1; a 2#1 stop; a 1#1 stop; a 2#1 resume
		join a=9 1#1:running 2#1:stopped
		hub = a 1#1 stop; a 2#1 resume`)
}

func TestRequeue(t *testing.T) {
	play(t, "a running job ends and waits again, as the same job", `
		join a=1
		submit ada
		report a 1#1 began
		requeue ada 1 = Job <1> is being requeued
		hub = a assign 1#1; a 1#1 kill TERM_REQUEUE_OWNER
		report a 1#1 ended:9,TERM_REQUEUE_OWNER
		show 1 = RUN a#2
		report a 1#1 ended:0
		show 1 = RUN a#2
		report a 1#2 ended:0
		show 1 = DONE 0`)
	play(t, "what waits, and what has ended unless that is asked for", `
		join a=9
		submit ada hold
		requeue ada 1 = ! Job <1>: Job has not started yet
		kill ada 1
		requeue ada 1 = ! Job <1>: Job has already finished
		requeue ada 1 state=EXIT = Job <1> is being requeued
		show 1 = RUN a#1
		requeue root 1 state=RUN
		report a 1#1 ended:9
		show 1 = RUN a#2`)
	play(t, "one that has ended and is held", `
		join a=9
		submit ada
		report a 1#1 ended:0
		requeue ada 1 state=DONE hold
		show 1 = PSUSP`)
	play(t, "a kill after it wins", `
		join a=1
		submit ada
		requeue ada 1
		kill ada 1
		report a 1#1 ended:9
		show 1 = EXIT 137`)
	play(t, "its node has forgotten it meanwhile", `
		join a=1
		submit ada
		report a 1#1 began
		requeue ada 1
		join a=1
		show 1 = RUN a#2`)
}

func TestSwitchModifyMove(t *testing.T) {
	play(t, "another queue", `
		submit ada
		switch ada 1 to=short = Job <1> is switched to queue <short>
		switch ada 1 to=none = none: No such queue
		switch ada 1 to=own = ! Job <1>: User cannot use the queue
		submit ada limit=2h
		switch ada 2 to=short = ! Job <2>: short: Cannot exceed queue's hard limit(s)
		admin root qclose small
		switch ada 1 to=small = ! Job <1>: small: Queue is closed
		kill ada 1
		switch ada 1 to=normal = ! Job <1>: Job has already finished`)
	play(t, "a switched job starts by the rules of its new queue", `
		join a=1
		submit ada queue=far
		why 1 = not-selected
		switch ada 1 to=normal
		show 1 = RUN a#1`)
	play(t, "what waits can be changed", `
		join a=1
		submit ada slots=4
		why 1 = no-host
		mod ada 1 -n=1 = Parameters of job <1> are being changed
		show 1 = RUN a#1
		mod ada 1 -n=2 = ! Job <1>: Job has already started
		mod ada 1 -W=2:00 = Parameters of job <1> are being changed
		hub = a assign 1#1; a 1#1 limit 2h0m0s
		mod eve 1 -W=1 = ! Job <1>: User permission denied
		submit ada w=done(1)
		mod ada 2 -wn
		mod ada 2 -w=done(9) = ! Job <2>: 9: No matching job found
		mod ada 2 -q=short
		mod ada 2 -W=99:00 = ! Job <2>: short: Cannot exceed queue's hard limit(s)
		report a 1#1 ended:0
		show 2 = RUN a#1
		mod ada 1 -W=1 = ! Job <1>: Job has already finished`)
	play(t, "top and bottom among the user's own", `
		submit ada
		submit eve
		submit ada
		submit ada
		submit eve
		jobs = 1 2 3 4 5
		top ada 4 = Job <4> has been moved to position 1 from top.
		jobs = 4 1 2 3 5
		top ada 3 pos=2 = Job <3> has been moved to position 2 from top.
		jobs = 4 3 1 2 5
		bottom ada 4 = Job <4> has been moved to position 1 from bottom.
		jobs = 3 1 4 2 5
		bottom ada 3 pos=2 = Job <3> has been moved to position 2 from bottom.
		jobs = 1 3 4 2 5
		top eve 5 pos=99 = Job <5> has been moved to position 2 from top.
		jobs = 1 3 4 2 5
		top eve 1 = ! Job <1>: User permission denied`)
	play(t, "one's only job does not pass those of others", `
		submit ada
		submit eve
		top eve 2 = Job <2> has been moved to position 1 from top.
		jobs = 1 2
		top root 2
		jobs = 2 1
		bottom root 2
		jobs = 1 2`)
	play(t, "what runs has no place to move from", `
		join a=9
		submit ada
		top ada 1 = ! Job <1>: Job has already started
		report a 1#1 ended:0
		top ada 1 = ! Job <1>: Job has already finished`)
}

func TestAdmin(t *testing.T) {
	play(t, "hosts and queues", `
		join a=1
		join b=1
		admin ada hclose a = User permission denied
		admin root hclose z = ! z: Bad host name
		admin root hclose all = Close <a> ...... done; Close <b> ...... done
		submit ada
		why 1 = host-down
		admin root hopen b = Open <b> ...... done
		show 1 = RUN b#1
		admin root qclose z = ! z: No such queue
		admin root dance normal = ! normal: unknown operation "dance"`)
	play(t, "R13: what was closed stays closed when the host comes back", `
		join a=1
		admin root hclose a
		gone a
		join a=1
		submit ada
		why 1 = host-down`)
}
