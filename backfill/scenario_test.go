package backfill

import "testing"

// Bugs of other schedulers, each as the case that shows the right behaviour.

func TestBackfillScenarios(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		// Slurm 20564 (57f936c441): the start of the top job was worked out with nodes that it does not need.
		{"B1: cycle after cycle, longer jobs elsewhere and on its nodes do not move the first job", `
			nodes a=4 b=4
			running 1 on a:3 ends 10m ; running 5 on b:4 ends 5h
			job 2 slots=4 limit=1h on=a ; job 3 limit=9h on=a
			at 5m job 4 limit=9h on=a ; job 6 limit=5m on=a
			= 5m start 6 on a
			= 10m start 2 on a
			= 1h10m start 3 on a
			= 1h10m start 4 on a`},
		// Slurm 20564 (80698761d1): a limit below the planner's resolution gave two jobs the same nodes.
		{"B2: limits below a second are planned exactly", `
			policy protected=all
			nodes a=1
			job 1 limit=1ms ; job 2 limit=1ns ; job 3 limit=500us
			= start 1 on a
			= reserve 2 at 1ms on a
			= reserve 3 at 1.000001ms on a
			= wait 2 slots ~1ms
			= wait 3 slots ~1.000001ms`},
		// spur PR#732: two nodes are never free at once for the job that needs both.
		{"B4: endless small jobs do not starve a large one", `
			nodes a=1 b=1
			running 1 on a:1 ends 5m ; running 9 on b:1 ends 8m
			job 2 slots=2 limit=1h ; job 3 limit=10m n=4
			at 6m job 4 limit=2m
			= 6m start 4 on a
			= 8m start 2 on a:1 b:1
			= 1h8m start 3[1] 3[2]
			= 1h18m start 3[3] 3[4]`},
		// Slurm 23350 (dedc92b367): the job got its minimum although more was free.
		{"B5: -n min,max takes what is free, up to its most", `
			nodes a=8
			running 9 on a:2 ends 1h
			job 1 slots=2,5 limit=1h ; job 2 slots=1,9 limit=1h
			= start 1 on a:5
			= start 2 on a:1
			at 30m end 9 ; job 3 slots=3,9
			= reserve 3 at 1h on a
			= wait 3 slots ~1h`},
		{"B5: it shrinks only as far as a promise asks", `
			nodes a=4 b=4
			running 1 on a:4 ends 10m
			job 2 slots=6 limit=1h ; job 3 slots=1,4 limit=9h
			= start 3 on b:2
			= reserve 2 at 10m on a b
			= wait 2 slots ~10m`},
		// Slurm 1750 (54b258ecda): a job held while the planner worked started all the same.
		{"B7: a held job starts neither behind nor by its promise, and has its turn when released", `
			nodes a=2
			running 1 on a:2 ends 10m
			job 2 slots=2 limit=1h ; job 3 slots=1 limit=1h
			at 5m hold 2 ; at 30m release 2
			= 10m start 3 on a
			= 1h10m start 2 on a`},
		// Slurm 2032 (1886ac8b0f).
		{"B10: limits beyond counting are as none", `
			nodes a=2
			job 1 limit=2562047h slots=1 ; job 2 limit=never ; job 3 slots=2 limit=2562047h ; job 4 limit=1h
			= start 1 on a
			= start 2 on a
			= wait 3 slots
			= wait 4 slots`},
		// Slurm 23955 (02a6635b50): more than 60 years locked the controller.
		{"B11: a limit of a hundred years is planned as such", `
			nodes a=2 b=1
			running 1 on a:1 ends 876000h
			job 2 slots=2 limit=876000h onehost ; job 3 limit=1752000h ; job 4 slots=1 limit=876000h on=a
			= start 3 on b
			= start 4 on a
			= wait 2 slots`},
		// openpbs#2518: "run at year 13429", found after 205,167 s.
		{"B13: whom a limit keeps holds no promise, whatever it would need, and returns when the limit lets it", `
			nodes a=4 ; limit u=2
			job 1 slots=2 limit=1h under=u ; job 2 slots=2 limit=1h under=u ; job 3 slots=2 limit=9h ; job 4 slots=3 limit=9h under=u
			= start 1 on a
			= start 3 on a
			= wait 2 queue-limit ~1h
			= wait 4 queue-limit`},
		{"B13: it starts when the limit lets it", `
			nodes a=4 ; limit u=2
			job 1 slots=2 limit=1h under=u ; job 2 slots=2 limit=1h under=u ; job 3 slots=2 limit=9h
			= 0m start 1 3
			= 1h start 2 on a`},
		{"limits of memory and fGPU count allocations, and whom they keep holds no promise and no place", `
			nodes a=8,mem=64,gpu=2x100 ; limit m=4294967296m g=150g
			job 1 mem=3 limit=1h under=m ; job 2 mem=2 limit=1h under=m ; job 3 fgpu=1 limit=1h under=g ; job 4 fgpu=1 limit=2h under=g ; job 5 limit=9h
			= 0m start 1 3 5
			= 1h start 2 4`},
		{"a whole GPU counts what it is, and others pass whom a limit keeps", `
			nodes a=8,gpu=2x100 b=8,gpu=2x200 ; limit g=250g
			running 1 on b:1/0=200 ends 1h under=g
			job 2 whole=1 limit=1h on=b under=g ; job 3 whole=1 limit=9h on=a
			= start 3 on a/0
			= wait 2 limit ~1h
			at 1h
			= start 2 on b/0`},
		{"one host or two: what a place takes more than the least is asked of the limit, too", `
			nodes a=3,mem=64 b=3,mem=64 ; limit m=4294967296m
			job 1 slots=4 mem=3 limit=1h under=m ; job 2 slots=2 mem=3 limit=2h under=m
			= start 2 on a
			= wait 1 limit`},
		// OpenPBS test_topjob_fail.
		{"B14: the place of a job that can never run goes to the next, and comes back with its nodes", `
			nodes a=2
			running 1 on a:1 ends 1h
			job 2 slots=3 limit=1h onehost ; job 3 slots=2 limit=1h ; job 4 limit=2h
			at 30m join b=3
			= 30m start 2 on b
			= 1h start 3 on a
			= 1h30m start 4 on b`},
		// Slurm 14197 (37ee18ba75), traces 10.
		{"B17: one cycle counts the licences that it gives", `
			nodes a=8,lic=2
			job 1 lic=1 limit=1h n=2 ; job 2 lic=1 limit=30m ; job 3 lic=2 limit=1h ; job 4 limit=9h ; job 5 lic=1 limit=2h
			= 0m start 1[1] 1[2] 4
			= 1h start 2
			= 1h30m start 3
			= 2h30m start 5`},
		// flux-sched#1424: jobs kept "eta:now" of plans long past.
		{"B19: only the current plan's starts are shown", `
			nodes a=2
			running 1 on a:2 ends 1h
			job 2 slots=2 limit=1h ; job 3 slots=2 limit=1h
			= reserve 2 at 1h on a
			= wait 2 slots ~1h
			at 10m mod 3 prio=9
			= reserve 3 at 1h on a
			= wait 2 slots ~2h
			= wait 3 slots ~1h
			at 20m kill 3
			= reserve 2 at 1h on a
			= wait 2 slots ~1h`},
		// HyperQueue#848.
		{"B20: low tasks run beside high ones that they cannot delay, on GPUs they could only later", `
			nodes a=64,gpu=4x100
			running 1 on a:4/0=100,1=100,2=100,3=100 ends 1h
			job 2 whole=1 prio=9 limit=1h n=16 ; job 3 slots=60 prio=1 limit=99h ; job 4 whole=1 prio=1 limit=1m
			= start 3 on a
			= reserve 2[1] at 1h on a
			= wait 2 slots ~1h
			= wait 4 slots ~5h`},
		// flux-sched#670.
		{"B22: a job whose nodes are down is passed, and goes first when they are back", `
			nodes a=2 b=2,down
			job 1 slots=4 limit=1h ; job 2 slots=2 limit=1h n=2
			at 10m rise b
			= 0m start 2[1] on a
			= 1h start 1 on a:2 b:2
			= 2h start 2[2] on a`},
		// OpenPBS PR#2303: [start, end), also at midnight: 12 h after noon.
		{"B23: a window that begins at midnight is closed before and open then", `
			nodes a=2 ; window w a:2 12h-18h
			job 1 limit=12h ; job 2 limit=12h1s ; job 3 in=w limit=6h ; job 4 in=w limit=6h1s
			at 13h job 5 in=w limit=5h ; at 14h job 6 in=w limit=4h1s
			= 0m start 1 on a
			= 12h start 3 on a
			= 13h start 5 on a
			= 18h start 2 on a`},
		{"B23: and one that ends at midnight frees its nodes then", `
			nodes a=2 ; window w a:2 6h-12h
			job 1 slots=2 limit=7h ; job 2 slots=2 limit=6h in=w ; job 3 slots=2 limit=1m in=w
			= 6h start 2 on a
			= 12h start 1 on a`},
	} {
		play(t, c.name, c.text)
	}
}

func TestQueueScenarios(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"flux-sched#197: a job that nothing is free for now has its start reserved all the same", `
			nodes a=4
			running 1 on a:4 ends 1h
			job 2 slots=4 limit=1h
			at 10m job 3-4 slots=1 limit=1h
			at 20m end 1 ; job 5 limit=1m
			= 20m start 2 on a
			= 1h20m start 3 4 5`},
		{"flux-sched#572: EASY serves 17 jobs, which all run for 20m, in 7 waves", `
			nodes a=1 b=1 c=1 d=1
			job 1 slots=4 limit=80m runs=20m ; job 2-3 slots=3 limit=80m runs=20m ; job 4-7 slots=2 limit=80m runs=20m
			job 8 limit=70m runs=20m ; job 9 limit=65m runs=20m ; job 10 limit=60m runs=20m ; job 11 limit=55m runs=20m
			job 12 limit=50m runs=20m ; job 13 limit=45m runs=20m ; job 14 limit=40m runs=20m
			job 15 limit=35m runs=20m ; job 16 limit=30m runs=20m ; job 17 limit=25m runs=20m
			= 0m start 1 ; = 20m start 2 8 ; = 40m start 3 9 ; = 60m start 4 5 ; = 80m start 6 7
			= 100m start 10 11 12 13 ; = 120m start 14 15 16 17`},
		{"flux-sched#572: as many without limits, since the fourth node is nobody's who comes before", `
			nodes a=1 b=1 c=1 d=1
			job 1 slots=4 runs=20m ; job 2-3 slots=3 runs=20m ; job 4-7 slots=2 runs=20m ; job 8-17 runs=20m
			= 0m start 1 ; = 20m start 2 8 ; = 40m start 3 9 ; = 60m start 4 5 ; = 80m start 6 7
			= 100m start 10 11 12 13 ; = 120m start 14 15 16 17`},
		{"flux-sched#572: 8 waves where nothing passes", `
			policy protected=0
			nodes a=1 b=1 c=1 d=1
			job 1 slots=4 limit=20m ; job 2-3 slots=3 limit=20m ; job 4-7 slots=2 limit=20m ; job 8-17 limit=20m
			= 0m start 1 ; = 20m start 2 ; = 40m start 3 ; = 60m start 4 5 ; = 80m start 6 7
			= 100m start 8 9 10 11 ; = 120m start 12 13 14 15 ; = 140m start 16 17`},
		{"flux-sched#1210: jobs whose node is drained use up no depth and no looks", `
			policy looks=4
			nodes a=2 b=8,closed
			job 1 slots=8 n=1000 limit=1h onehost ; job 2 slots=5 n=1000 onehost ; job 3 on=b ; job 4 limit=1h ; job 5 limit=2h
			= start 4 on a
			= start 5 on a
			= wait 1 host-down
			= wait 2 host-down
			= wait 3 host-down`},
		{"flux-sched#224: who has no limit holds nothing for 0 s but for ever", `
			nodes a=2
			job 1 ; job 2 slots=2 limit=1h ; job 3 limit=1h ; job 4 limit=1s
			= start 1 on a
			= start 3 on a
			= reserve 4 at 1h on a
			= wait 2 slots
			= wait 4 slots ~1h`},
		{"Slurm 16741: a job is not held back for a node that stays busy beyond its limit while others become free", `
			nodes a=4 b=4
			running 1 on a:4 ends -1m ; running 2 on b:4 ends 30m
			job 3 slots=4 limit=1h onehost ; job 4 slots=1 limit=1h
			at 4h end 1
			= 30m start 3 on b
			= 1h30m start 4 on b`},
		{"openpbs#2627: to ask for none of a resource is not to ask for it", `
			nodes a=8
			running 1 on a:4 ends 1h
			job 2 slots=8 limit=1h prio=1000 ; job 3 slots=4 limit=4h ; job 4 slots=4 limit=4h whole=0 gmem=0 lic=0
			= reserve 2 at 1h on a
			= wait 2 slots ~1h
			= wait 3 reserved ~2h
			= wait 4 reserved ~2h`},
		{"openpbs#1044: strict order stops at the first that is blocked", `
			policy protected=0
			nodes a=4
			running 1 on a:2 ends 1h
			job 2 slots=3 limit=1h ; job 3 limit=1m
			= wait 2 slots ~1h
			= wait 3 reserved ~1h`},
		{"flux-sched#197: who has no limit does not pass for ever who needs his place", `
			nodes a=1 b=1
			job 1 runs=20m ; job 2 runs=30m ; job 3 slots=2 runs=1h ; job 4-9 runs=30m ; job 10 limit=10m
			= 0m start 1 2 ; = 20m start 10 ; = 30m start 3 ; = 90m start 4 5 ; = 2h start 6 7 ; = 150m start 8 9`},
		{"a promise under a limit counts on what ends before it", `
			nodes a=6 ; limit u=6
			running 9 on a:3 ends 37m
			job 2 slots=6 limit=12m under=u ; job 3 slots=2 limit=15m under=u
			at 5m job 4 limit=9h
			= 0m start 3 ; = 37m start 2 ; = 49m start 4`},
		{"who holds a promise and is moved behind others comes behind them", `
			nodes a=1
			running 1 on a:1 ends 1h
			job 2-3 limit=1h user=ann ; at 10m bottom 2
			= 1h start 3 ; = 2h start 2`},
		{"openpbs#1661: who was promised the next turn has had it too", `
			policy protected=all order=fairshare
			nodes a=5 ; used u0=9
			running 1 on a:5 ends 1h user=u0
			job 2-3 slots=5 limit=1h user=u1 ; job 4 slots=5 limit=1h user=u2
			= 1h start 2 ; = 2h start 4 ; = 3h start 3`},
		{"openpbs#1661: who was given the next turn in this cycle has had it", `
			policy order=fairshare
			nodes a=5 ; used u0=9
			running 1 on a:5 ends 1h user=u0
			job 2 slots=5 limit=1h user=u1 ; job 3 slots=5 limit=1h user=u1 ; job 4 slots=5 limit=1h user=u2
			= 1h start 2
			= 2h start 4
			= 3h start 3`},
		{"openpbs#1661: of many that start at once each user gets his part", `
			policy order=fairshare
			nodes a=4
			job 1-4 limit=1h user=ann ; job 5-8 limit=1h user=bob
			= 0m start 1 5 2 6
			= 1h start 3 7 4 8`},
		{"volcano#4028: what can start nowhere does not end the cycle", `
			policy protected=all
			nodes a=2
			job 1 slots=9 ; job 2 whole=1 ; job 3 on=z ; job 4 mem=900 ; job 5 lic=1 ; job 6 limit=1h
			= start 6 on a
			= wait 1 no-host
			= wait 2 no-host
			= wait 3 not-selected
			= wait 4 no-host
			= wait 5 no-host`},
		{"KAI#1369: two slices of 0.6 are more than one GPU", `
			nodes a=8,gpu=1x100 b=8,gpu=2x100,closed
			job 1 gmem=5 count=2
			= wait 1 host-down
			at 1m open b
			= start 1 on b/0/1`},
		{"N7: a gang on a node that is drained meanwhile waits as a whole, and starts on others", `
			nodes a=2 b=2 c=2
			running 1 on a:2 ends 10m ; running 9 on c:2 ends 1h
			job 2 slots=4 limit=1h
			= reserve 2 at 10m on a b
			= wait 2 slots ~10m
			at 5m close b
			= reserve 2 at 1h on a c
			= wait 2 slots,host-down ~1h`},
	} {
		play(t, c.name, c.text)
	}
}

// One story under each policy. 2, 3 and 4 are wide; 5 would delay 3, 6 would delay 4, 7 nobody.
func TestPolicies(t *testing.T) {
	const story = `
			nodes a=6
			running 1 on a:4 ends 1h
			job 2 slots=4 limit=1h ; job 3 slots=5 limit=1h ; job 4 slots=6 limit=1h
			job 5 slots=2 limit=9h ; job 6 slots=1 limit=9h ; job 7 slots=2 limit=1h`
	for _, c := range []struct{ name, policy, starts string }{
		{"fcfs: nothing passes", "protected=0", `
			= 1h start 2
			= 2h start 3
			= 3h start 4
			= 4h start 5 6 7`},
		{"EASY: the first to wait is not delayed, the others may be", "protected=1", `
			= 0m start 5
			= 1h start 2
			= 2h start 6 7
			= 9h start 3
			= 11h start 4`},
		{"two are protected", "protected=2", `
			= 0m start 6
			= 1h start 2
			= 2h start 3
			= 3h start 7
			= 9h start 4
			= 10h start 5`},
		{"conservative: nobody is delayed", "protected=all", `
			= 0m start 7
			= 1h start 2
			= 2h start 3
			= 3h start 4
			= 4h start 5 6`},
		{"EASY, and of those behind the shortest first", "protected=1 candidates=sjf", `
			= 0m start 7
			= 1h start 2 6
			= 2h start 3
			= 10h start 4
			= 11h start 5`},
	} {
		play(t, c.name, "policy "+c.policy+story+c.starts)
	}
	for _, c := range []struct{ name, text string }{
		{"the shortest first, and priority before that", `
			policy order=sjf
			nodes a=1
			running 1 on a:1 ends 1h
			job 2 limit=3h ; job 3 limit=2h ; job 4 limit=1h ; job 5 limit=9h prio=1
			= 1h start 5 ; = 10h start 4 ; = 11h start 3 ; = 13h start 2`},
		{"the largest expansion factor first, as it is by then", `
			policy order=xfactor
			nodes a=1
			running 1 on a:1 ends 1h
			job 2 limit=10h ; at 30m job 3 limit=10m ; job 4 limit=5m
			= 1h start 4 ; = 1h5m start 3 ; = 1h15m start 2`},
		{"a user's top and bottom job, in an order that changes with time", `
			policy order=xfactor
			nodes a=1
			running 1 on a:1 ends 1h
			job 2-5 limit=1h user=ann ; at 10m top 5 ; bottom 3
			= 1h start 5 ; = 2h start 2 ; = 3h start 4 ; = 4h start 3`},
		{"F10: a factor of 0, here of who has just come, hides no other", `
			policy order=weighted
			nodes a=1 ; used ann=99
			running 1 on a:1 ends 6h
			job 2 limit=1h user=ann ; at 6h job 3 limit=1h user=ann ; job 4 limit=1h user=bob ; job 5 limit=1h user=cid prio=-1
			= 6h start 4 ; = 7h start 2 ; = 8h start 3 ; = 9h start 5`},
		{"F10: and the wait counts in the end", `
			policy order=weighted
			nodes a=1 ; used ann=99
			running 1 on a:1 ends 25h
			job 2 limit=1h user=ann ; at 24h59m job 3 limit=1h user=bob
			= 25h start 2 ; = 26h start 3`},
		{"the one that waits longest for what it asks for first, and more so as it waits", `
			policy order=responsive
			nodes a=1
			running 1 on a:1 ends 1h
			job 2 limit=10h ; at 30m job 3 limit=30m ; at 55m job 4 limit=1m
			= 1h start 4 ; = 1h1m start 3 ; = 1h31m start 2`},
		{"who has used least first", `
			policy order=fairshare
			nodes a=1 ; used ann=5 bob=3
			running 1 on a:1 ends 1h
			job 2-3 limit=1h user=ann ; job 4-6 limit=1h user=bob
			= 1h start 4 ; = 2h start 5 ; = 3h start 2 ; = 4h start 6 ; = 5h start 3`},
	} {
		play(t, c.name, c.text)
	}
}

func TestWindows(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"what runs when a window is made runs to its end, and the window's jobs wait for it", `
			nodes a=2
			job 1 limit=3h slots=2
			at 10m window w a:2 1h-4h ; job 2 in=w limit=1h ; job 3 limit=1h
			= 0m start 1 ; = 3h start 2 ; = 4h start 3`},
		{"who is over his limit when a window opens still has his place", `
			nodes a=2 ; window w a:2 30m-90m
			job 1 limit=20m runs=40m ; job 2 slots=2 limit=10m in=w
			= 0m start 1 ; = 40m start 2`},
		{"who is over his limit when a window closes too", `
			nodes a=2 ; window w a:2 0m-10m
			job 1 in=w slots=2 limit=10m runs=15m
			at 10m job 2 slots=2 limit=5m
			= 0m start 1 ; = 15m start 2`},
		{"a node that was closed and opened keeps its windows", `
			nodes a=2 ; window w a:2 1h-2h
			at 1m close a ; open a ; job 1 limit=90m
			= 2h start 1`},
		{"who would run into a window waits for its end", `
			nodes a=2 ; window w a:2 1h-2h
			job 1 limit=1h ; job 2 limit=61m ; job 3
			= 0m start 1 on a
			= 2h start 2 3`},
		{"Slurm 15931: it is tested with the limit that it has", `
			nodes a=2 b=2,closed ; window w a:2 10m-2h
			job 1 limit=1h
			= reserve 1 at 2h on a
			= wait 1 reserved,host-down ~2h`},
		{"several start at once when a window opens, and what is left of it goes round", `
			nodes a=4 ; window w a:3 1h-2h
			job 1 in=w limit=30m n=5 ; job 2 in=w slots=2 limit=1h
			= 1h start 1[1] 1[2] 1[3]
			= 90m start 1[4] 1[5]`},
		{"the part of a node that is not reserved is everybody's", `
			nodes a=4 ; window w a:3 1h-2h
			job 1 limit=9h ; job 2 limit=9h
			= 0m start 1
			= 2h start 2`},
		{"promises move from a window that is made later, and back when it is dropped", `
			nodes a=2
			running 1 on a:2 ends 1h
			job 2 slots=2 limit=1h
			= reserve 2 at 1h on a
			= wait 2 slots ~1h
			at 10m window w a:2 1h-4h
			= reserve 2 at 4h on a
			= wait 2 slots ~4h
			at 20m drop w
			= reserve 2 at 1h on a
			= wait 2 slots ~1h`},
		{"a weekly window: the second one is used as the first", `
			nodes a=1 ; window w a:1 1h-2h,169h-170h
			job 1 in=w limit=1h ; job 2 in=w limit=1h ; job 3 limit=167h ; job 4 limit=168h
			= 1h start 1
			= 2h start 3
			= 169h start 2
			= 170h start 4`},
		{"a window on a GPU's half leaves the other half", `
			nodes a=8,gpu=1x100 ; window w a:2/0=50 1h-2h
			job 1 fgpu=0.5 limit=9h ; job 2 fgpu=0.5 limit=9h ; job 3 fgpu=0.5 limit=1h in=w
			= 0m start 1
			= 1h start 3
			= 2h start 2`},
	} {
		play(t, c.name, c.text)
	}
}

func TestLimitsAndShapes(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"an array's limit lets the next in, by its place, as one ends; meanwhile it holds nothing", `
			nodes a=4
			job 1 n=5 most=2 limit=1h ; job 2 slots=4 limit=1h ; job 3 limit=30m
			at 20m end 1[1]
			= 0m start 1[1] 1[2] 3
			= 20m start 1[3]
			= 1h start 1[4]
			= 1h20m start 1[5]
			= 2h20m start 2`},
		{"a limit of elements counts an element on several nodes once", `
			nodes a=2 b=2 ; limit q=2x
			job 1 slots=3 limit=1h under=q ; job 2 limit=1h under=q n=2
			= 0m start 1 2[1]
			= 1h start 2[2]`},
		{"F5: what is used up keeps out nobody who does not ask for it", `
			nodes a=4,mem=8,lic=1,gpu=1x100
			running 9 on a:1/0=100 ends 9h
			job 1 lic=1 mem=8 limit=1h ; job 2 lic=1 limit=1h ; job 3 limit=1h
			= 0m start 1 3
			= 1h start 2`},
		{"exclusive among shared: alone, then all", `
			nodes a=4 b=4,closed
			job 1 limit=1h ; job 2 excl limit=1h ; job 3 limit=1h n=2
			= 0m start 1 3[1] 3[2]
			= 1h start 2 on a`},
		{"exclusive on every node of a span", `
			nodes a=4 b=4 c=4
			running 9 on b:1 ends 1h
			job 1 slots=4 ptile=2 excl limit=1h ; job 2 limit=1h
			= 0m start 1 on a:2 c:2
			= 0m start 2 on b`},
		{"ptile is kept by a promise", `
			nodes a=4 b=4
			running 9 on b:3 ends 1h
			job 1 slots=4 ptile=2 limit=1h ; job 2 slots=3 limit=2h ; job 3 slots=2 limit=2h onehost
			= 0m start 2 on a:2 b:1
			= 1h start 1 on a:2 b:2
			= 2h start 3 on a`},
		{"whole GPUs are found because fractions were kept together", `
			nodes a=8,gpu=2x100
			job 1-2 fgpu=0.5 limit=1h ; job 3 whole=1 limit=1h ; job 4 fgpu=0.25 limit=1h
			= 0m start 1 2 on a/0
			= 0m start 3 on a/1
			= 1h start 4`},
	} {
		play(t, c.name, c.text)
	}
}

// KAI#49: the memory that comes with a part of a GPU is that part of it: 8 GiB are 2 fGPU here, and 0.5 is asked for.
func TestAFractionComesWithItsMemory(t *testing.T) {
	c := run(t, "KAI#49", "nodes a=8,gpu=1x200 ; job 1 fgpu=0.5 ; at 1m")
	if got := c.starts[0].start.Alloc[0].Slices[0].Memory; got != 2*gib {
		t.Errorf("0.5 fGPU of 2 in 8 GiB come with %d bytes", got)
	}
}
