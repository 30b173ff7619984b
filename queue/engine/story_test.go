package engine_test

import "testing"

// Bugs of other batch systems, each as the story that shows the right behaviour.

func TestArrayScenarios(t *testing.T) {
	play(t, "A5: an element, several, and all of an array can be killed by what listings print", `
		join a=2
		submit ada array=1-6
		kill ada 1[2] = Job <1[2]> is being terminated
		kill ada 1[4-5]
		show 1 = 1:RUN a#1 2:RUN a#1 3:PEND 4:EXIT 0 TERM_OWNER 5:EXIT 0 TERM_OWNER 6:PEND
		kill ada 1[1 = 1[1: Illegal job ID.
		kill ada 1
		hub = a assign 1[1]#1; a assign 1[2]#1; a 1[2]#1 kill TERM_OWNER; a 1[1]#1 kill TERM_OWNER; a 1[2]#1 kill TERM_OWNER
		show 1 = 1:RUN a#1 2:RUN a#1 3:EXIT 0 TERM_OWNER 4:EXIT 0 TERM_OWNER 5:EXIT 0 TERM_OWNER 6:EXIT 0 TERM_OWNER`)
	play(t, "A10: to kill the same element twice, in one command or two, is to kill it once", `
		join a=1
		submit ada array=1-2
		kill ada 1[2] 1[2] = Job <1[2]> is being terminated; ! Job <1[2]>: Job has already finished
		kill ada 1[2] = ! Job <1[2]>: Job has already finished
		events 1[2] = ended
		kill ada 1[1] 1[1]
		kill ada 1[1]
		report a 1[1]#1 ended:9,TERM_OWNER
		show 1 = 1:EXIT 137 TERM_OWNER 2:EXIT 0 TERM_OWNER
		events 1[1] = started kill-requested began ended
		kill ada 1 = ! Job <1>: Job has already finished`)
	play(t, "A11: running, stopped, killed and held elements are after two restarts what they were", `
		join a=2
		submit ada array=1-5
		report a 1[1]#1 began
		report a 1[2]#1 began
		stop ada 1[2] 1[4]
		report a 1[2]#1 stopped
		kill ada 1[3]
		show 1 = 1:RUN a#1 2:USUSP a#1 3:EXIT 0 TERM_OWNER 4:PSUSP 5:PEND
		restart
		restart
		join a=2 1[1]#1:running 1[2]#1:stopped
		show 1 = 1:RUN a#1 2:USUSP a#1 3:EXIT 0 TERM_OWNER 4:PSUSP 5:PEND
		hub =
		report a 1[1]#1 ended:0
		show 1 = 1:DONE 0 2:USUSP a#1 3:EXIT 0 TERM_OWNER 4:PSUSP 5:RUN a#1`)
	play(t, "A13: what became of an array is what became of its last runs", `
		join a=9
		submit ada array=1-2
		submit ada w=done(1)
		submit ada w=exit(1[2])
		report a 1[1]#1 ended:0
		report a 1[2]#1 ended:256
		why 2 = never-satisfied
		show 3 = RUN a#1
		requeue ada 1[2] state=EXIT
		why 2 = dependency
		report a 1[2]#2 ended:0
		show 1 = 1:DONE 0 2:DONE 0
		show 2 = RUN a#1`)
}

func TestDependencyScenarios(t *testing.T) {
	play(t, "D2: a condition that is not understood to its end is refused", `
		submit ada = 1 normal
		submit ada w=done(1),done(1) = Dependency condition syntax error: want && or || before ,
		submit ada w=done(1)?exit(1) = Dependency condition syntax error: want && or || before ?exit
		submit ada w=done(1)+60garbage = Dependency condition syntax error: want && or || before +60garbage
		submit ada w=1_ = Dependency condition syntax error: 1_ begins with a digit: a name like that must be quoted
		submit ada w=done(1)&&exit(1)||ended(1) = 2 normal`)
	play(t, "D4: of an array means of all of its elements, or of so many; what is unknown is refused", `
		join a=9
		submit ada array=1-3
		submit ada w=done(1)
		submit ada w=numdone(1,>=2)
		submit ada w=aftercorr(1) = Dependency condition syntax error: no function aftercorr(): want one of done ended exit started post_done post_err numrun numpend numhold numstart numexit numdone numended
		report a 1[1]#1 ended:0
		report a 1[3]#1 ended:0
		show 2 = PEND
		show 3 = RUN a#1
		report a 1[2]#1 ended:0
		show 2 = RUN a#1`)
	play(t, "D5: conditions on a job that has ended already hold at once, or never", `
		join a=9
		submit ada
		report a 1#1 ended:0
		submit ada w=done(1)
		submit ada w=ended(1)
		submit ada w=started(1)
		submit ada w=exit(1)
		show 2 = RUN a#1
		show 3 = RUN a#1
		show 4 = RUN a#1
		why 5 = never-satisfied`)
	play(t, "D8: a name means one's own jobs that have it, and no others", `
		join a=9
		submit eve name=x
		submit ada name=xy
		submit ada name=x
		submit ada w=done(x)
		report a 3#1 ended:0
		show 4 = RUN a#1`)
	play(t, "D10: who waits for whom is known after restarts, also when it has ended in between", `
		join a=1
		submit ada name=x
		submit ada hold w=done(x)
		submit ada w=exit(1)
		submit ada array=1-2 w=ended(2)
		submit ada w=done(1)
		restart
		why 3 = dependency
		join a=1 1#1:running
		report a 1#1 ended:0
		restart
		join a=1 5#1:running
		why 2 = held
		why 3 = never-satisfied
		why 4[1] = dependency
		show 5 = RUN a#1
		kill ada 2
		report a 5#1 ended:0
		show 4 = 1:RUN a#1 2:PEND
		restart
		show 4 = 1:RUN a#1 2:PEND
		events 5 = submitted started began ended`)
}

func TestAccountingScenarios(t *testing.T) {
	play(t, "F1: a restart while a job ends charges its time once", `
		join a=2,gpu=1
		submit ada slots=2 fgpu=1
		report a 1#1 began
		sleep 1m
		restart
		sleep 1m
		join a=2,gpu=1 1#1:ended
		report a 1#1 ended:0
		charged 1 = 1: 240 slot-s 120 fGPU-s
		restart
		join a=2,gpu=1 1#1:ended
		report a 1#1 ended:0
		sleep 1h
		charged 1 = 1: 240 slot-s 120 fGPU-s`)
	play(t, "F7: a job that never started is charged nothing and held nothing", `
		join a=1
		submit ada hold
		sleep 1h
		kill ada 1
		show 1 = EXIT 0 TERM_OWNER
		events 1 = submitted ended
		charged 1 = nothing`)
	play(t, "F8: a restart does not lengthen what ran meanwhile, and R7 a requeued run is charged once for each attempt", `
		join a=1
		submit ada rerun
		report a 1#1 began
		sleep 1m
		report a 1#1 lost
		charged 1 = 1: 60 slot-s 0 fGPU-s
		restart
		join a=1 1#2:running
		sleep 1m
		report a 1#2 ended:0
		charged 1 = 2: 120 slot-s 0 fGPU-s
		requeue ada 1 state=DONE
		charged 1 = 2: 120 slot-s 0 fGPU-s`)
}

func TestRestartScenarios(t *testing.T) {
	play(t, "R10: fractions are after a restart what they were, to the last part", `
		join a=9,gpu=1
		submit ada fgpu=0.75 limit=1h
		submit ada fgpu=1 limit=1h
		restart
		join a=9,gpu=1 1#1:running 2#1:running
		submit ada fgpu=0.3 limit=1h
		why 3 = gpu ~1h0m0s
		submit ada fgpu=0.25 limit=1h
		show 4 = RUN a#1
		report a 1#1 ended:0
		show 3 = RUN a#1`)
	play(t, "R13: a queue that was inactivated starts nothing after a restart", `
		join a=9
		admin root qinact normal
		submit ada
		restart
		join a=9
		sleep 1h
		why 1 = queue-inactive`)
	play(t, "N10: limits count after a restart what really runs", `
		join a=9
		submit ada queue=small
		submit ada queue=small
		report a 2#1 ended:0
		restart
		join a=9 1#1:running
		submit eve queue=small
		submit eve queue=small
		show 3 = RUN a#1
		why 4 = queue-limit`)
	play(t, "R8: a job that runs again has its place by its own priority, at once", `
		join a=1
		submit ada rerun prio=5
		submit ada prio=1
		submit ada prio=9 hold
		report a 1#1 lost
		show 1 = RUN a#2
		resume ada 3
		report a 1#2 ended:0
		show 3 = RUN a#1`)
}
