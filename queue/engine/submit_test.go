package engine_test

import "testing"

func TestSubmit(t *testing.T) {
	play(t, "numbers from 1, the default queue", `
		submit ada = 1 normal
		submit ada queue=short = 2 short
		show 1 = PEND
		why 1 = not-selected`)
	play(t, "R16: the same token of the same user gives the same job", `
		submit ada token=x = 1 normal
		submit ada token=x = 1 normal
		submit ada token=x queue=short = 1 normal
		submit eve token=x = 2 normal
		submit ada token=y = 3 normal
		admin root qclose normal
		submit ada token=x = 1 normal
		events 1 = submitted`)
	play(t, "queues", `
		submit ada queue=none = none: No such queue
		submit ada queue=own = User cannot use the queue
		submit eve queue=own = 1 own
		submit ada queue=own+short = 2 short
		submit ada queue=own+none = none: No such queue
		submit ada queue=short limit=61m = short: Cannot exceed queue's hard limit(s)
		submit ada queue=short+normal limit=61m = 3 normal
		submit ada queue=small slots=3 = Too many processors requested
		submit ada queue=each slots=2 = Too many processors requested
		submit ada queue=short excl = Queue does not accept exclusive jobs
		submit ada excl = 4 normal
		submit ada pty = Queue does not accept interactive jobs
		submit ada pty queue=again = 5 again
		submit ada queue=boxed = boxed: Queue runs jobs in containers only: an image must be named (-image)
		submit ada queue=boxed image=none = none: No such image
		submit ada queue=boxed image=base = 6 boxed
		submit ada queue=bare image=base = bare: Queue does not run containers
		admin root qclose normal = Queue <normal> is closed
		submit ada = normal: Queue is closed
		admin root qopen normal = Queue <normal> is opened
		submit ada = 7 normal`)
	play(t, "a fraction of a GPU is for containers, where the queue says nothing else", `
		submit ada queue=short fgpu=0.5 = short: Queue gives fractions of GPUs to jobs in containers only: name an image (-image), or ask for whole GPUs (-gpu num=1)
		submit ada queue=bare fgpu=3 = bare: Queue gives fractions of GPUs to jobs in containers only: name an image (-image), or ask for whole GPUs (-gpu num=1)
		submit ada queue=short fgpu=2 = 1 short
		submit ada queue=short fgpu=0.5 image=base = 2 short
		submit ada fgpu=0.5 = 3 normal`)
	play(t, "what contradicts itself is refused, and no number is lost", `
		submit ada limit=-1m = -W -1m0s: Bad RUNLIMIT specification: want at most one year
		submit ada array=1-101 = Job array index too large
		submit ada w=done( = Dependency condition syntax error: want a job's number or name, got the end
		submit ada = 1 normal`)
	play(t, "D1: a dependency on what is not there is refused", `
		submit ada w=done(9) = 9: No matching job found
		submit ada w=done(nobody) = nobody: No matching job found
		submit eve name=x = 1 normal
		submit ada w=done(1) = 1: No matching job found
		submit ada w=done(x) = x: No matching job found
		submit eve w=done(x) = 2 normal`)
}

func TestStart(t *testing.T) {
	play(t, "three sessions of 1 fGPU on 2: two run, one waits, and runs when one is killed", `
		join h=8,gpu=1
		submit ada fgpu=1 limit=1h
		submit ada fgpu=1 limit=1h
		submit ada fgpu=1 limit=1h
		show 1 = RUN h#1
		show 2 = RUN h#1
		show 3 = PEND
		why 3 = gpu ~1h0m0s
		report h 1#1 began
		kill ada 1
		hub = h assign 1#1; h assign 2#1; h 1#1 kill TERM_OWNER
		report h 1#1 ended:9,TERM_OWNER
		show 1 = EXIT 137 TERM_OWNER
		show 3 = RUN h#1
		hub = h assign 3#1`)
	play(t, "priority of the queue, then the user's own, then order of submission", `
		submit ada
		submit ada prio=5
		submit ada queue=short
		submit ada
		jobs = 3 2 1 4
		join a=2
		show 3 = RUN a#1
		show 2 = RUN a#1
		show 1 = PEND`)
	play(t, "hold, begin time, queue that starts nothing", `
		join a=9
		submit ada hold
		why 1 = held
		resume ada 1 = Job <1> is being resumed
		show 1 = RUN a#1
		submit ada begin=1h
		why 2 = begin-time ~1h0m0s
		sleep 59m
		show 2 = PEND
		sleep 2m
		show 2 = RUN a#1
		admin root qinact normal = Queue <normal> is inactivated
		submit ada
		why 3 = queue-inactive
		submit ada queue=short
		show 4 = RUN a#1
		admin root qact normal = Queue <normal> is activated
		show 3 = RUN a#1`)
	play(t, "limits of a queue, of its users, of an array", `
		join a=99
		submit ada queue=small
		submit eve queue=small
		submit eve queue=small
		why 3 = queue-limit
		submit ada queue=each
		submit ada queue=each
		submit eve queue=each
		show 4 = RUN a#1
		why 5 = user-limit
		show 6 = RUN a#1
		submit ada array=1-4%2
		show 7 = 1:RUN a#1 2:RUN a#1 3:PEND 4:PEND
		why 7[3] = array-limit
		report a 7[1]#1 ended:0
		show 7 = 1:DONE 0 2:RUN a#1 3:RUN a#1 4:PEND
		mod ada 7 -J=%3 = Parameters of job <7> are being changed
		show 7 = 1:DONE 0 2:RUN a#1 3:RUN a#1 4:RUN a#1`)
	play(t, "hosts of a queue; a closed host", `
		join a=9
		submit ada queue=far
		why 1 = not-selected
		join far=1
		show 1 = RUN far#1
		admin root hclose a = Close <a> ...... done
		submit ada
		why 2 = slots,host-down
		admin root hopen a = Open <a> ...... done
		show 2 = RUN a#1`)
	play(t, "A4: an element that cannot start does not touch the others", `
		join a=9
		submit ada array=1-3
		report a 1[2]#1 refused:3
		show 1 = 1:RUN a#1 2:EXIT 3 TERM_CWD_NOTEXIST 3:RUN a#1`)
}

func TestDependencies(t *testing.T) {
	play(t, "done wakes who waits", `
		join a=9
		submit ada
		submit ada w=done(1)
		why 2 = dependency
		report a 1#1 ended:0
		show 2 = RUN a#1`)
	play(t, "done never comes true after a failure, and exit does", `
		join a=9
		submit ada
		submit ada w=done(1)
		submit ada w=exit(1)
		submit ada w=ended(1)
		submit ada w=exit(1,3)
		report a 1#1 ended:512
		why 2 = never-satisfied
		show 3 = RUN a#1
		show 4 = RUN a#1
		why 5 = never-satisfied`)
	play(t, "names are resolved once, at submission", `
		join a=9
		submit ada name=x
		submit ada name=x
		submit ada name=y w=done(x)
		submit ada name=x
		report a 1#1 ended:0
		show 3 = PEND
		report a 2#1 ended:0
		show 3 = RUN a#1`)
	play(t, "all elements of an array, or the one with the same index", `
		join a=9
		submit ada array=1-2
		submit ada w=done(1)
		submit ada array=1-2 w=done(1[*])
		submit ada array=1-3 w=done(1[*]) = 1[*]: Dependency between arrays needs the same index list in both
		report a 1[2]#1 ended:0
		show 2 = PEND
		show 3 = 1:PEND 2:RUN a#1
		report a 1[1]#1 ended:0
		show 2 = RUN a#1
		show 3 = 1:RUN a#1 2:RUN a#1`)
	play(t, "A8: a requeued run is no failure", `
		join a=9
		submit ada rerun
		submit ada w=done(1)
		report a 1#1 lost
		why 2 = dependency
		report a 1#2 ended:0
		show 2 = RUN a#1`)
	play(t, "a job killed while it waits wakes who waits for its end", `
		join a=9
		submit ada hold
		submit ada w=ended(1)
		kill ada 1
		show 2 = RUN a#1`)
}

func TestSweep(t *testing.T) {
	play(t, "finished jobs are forgotten after the clean period, except those that are waited for", `
		join a=9
		submit ada
		submit ada
		report a 1#1 ended:0
		report a 2#1 ended:0
		submit ada hold w=done(2)
		sleep 59m
		jobs = 1 2 3
		sleep 2m
		jobs = 2 3
		kill ada 3
		sleep 10s
		jobs = 3
		kill ada 1 = ! Job <1>: No matching job found
		submit ada = 4 normal`)
	play(t, "a job that has not begun by -t is ended", `
		submit ada term=1h
		sleep 59m
		show 1 = PEND
		sleep 2m
		show 1 = EXIT 0 TERM_DEADLINE`)
	play(t, "an orphan is ended with -ti, and waits for ever without", `
		join a=9
		submit ada
		submit ada ti w=done(1)
		submit ada w=done(1)
		report a 1#1 ended:256
		sleep 10s
		show 2 = EXIT 0 TERM_ORPHAN_SYSTEM
		why 3 = never-satisfied`)
	play(t, "R7: an array is forgotten when its last element has long ended", `
		join a=9
		submit ada array=1-2
		report a 1[1]#1 ended:0
		sleep 2h
		show 1 = 1:DONE 0 2:RUN a#1
		report a 1[2]#1 ended:0
		sleep 2h
		show 1 = gone`)
}
