// Package backfill decides: from what waits, what runs and what the nodes have, it says what starts now and where, what
// start it promises to whom, why everything else waits, and when that is expected to start. It is pure: time is an
// argument, and the same history gives the same plan.
//
// A Planner is told what changes (PutNode, Add, End …) and plans again and again; Load makes one from a Snapshot, and
// Expect lets one run ahead of time. The daemon and the replay of traces use the same Planner.
//
// # A plan
//
// Elements are served in the Order, queue priority first. One that does not fit is promised the earliest start at which,
// if everything runs until its limit, it will fit; Policy.Protected says how many hold such promises: none, and nothing
// passes the first that waits (fcfs); one (EASY: Lifka, "The ANL/IBM SP Scheduling System", 1995); N; or all (conservative:
// Mu'alem and Feitelson, TPDS 2001). Whoever comes later starts only where it breaks no promise.
//
// A promise is kept in the timelines of its hosts (timeline.go), beside what runs there and beside the windows of advance
// reservations. It moves only to an earlier time, unless a node changes, a limit is raised, or an element that comes before
// it in order is submitted or let go. When something ends early, promises are laid again in order. An element that a
// limit or a hold keeps out holds no promise: it could not use it.
//
// What has no run limit is planned with for a year. Without an end, what needs its place could be promised nothing, and
// would be passed for ever; a start that far away is not told to anybody.
//
// # What makes it fast
//
// Elements of one shape are a class: if one does not fit, none does. Hosts in the same state are a kind: what fits one
// fits all, and costs the same. A class remembers what was short when it was last looked at, and only what was freed since
// can have made up for it (Planner.mayFit), so that a plan after one end looks at one host for most classes. Orders are
// kept sorted, or as a heap of one key for each user and class. BenchmarkPlan and BenchmarkPlanAfterEnd measure it, and
// "make bench" prints how it grows.
//
// # Invariants
//
// Each is held against random clusters and workloads in prop_test.go, and by cases in story_test.go and scenario_test.go:
//
//  1. No start exceeds what a node has.
//  2. A start never moves a promised start later.
//  3. A plan from what changed is the plan from nothing: what is remembered only saves work.
//  4. Whoever waits has a reason.
//  5. The plan is deterministic, and bounded by Policy.MaxStarts and MaxLooks; reaching the bound is reported.
//
// # The default order
//
// Responsive serves first who suffers most: the wait by the time that such jobs of this user run as a rule (Predictor),
// wide ones a little less, old waits progressively more. Who has waited longer than the guard comes before all others, as
// submitted, so nobody starves, and under overload it becomes EASY. Promises are made on run limits; a wrong guess breaks
// none. It was found on three published traces (Parallel Workloads Archive), all with one set of constants; mean bounded
// slowdown and maximum wait are ratios to EASY in the order of submission, the last two columns by how much utilisation
// differs when all arrive in 0.7 or 0.8 of the time.
//
//	                                     KTH-SP2      SDSC-SP2     HPC2N        geo   KTH .7  SDSC .8
//	Responsive, by this package          .460/1.16    .552/1.21    .464/1.12    .490  -.004   -.001
//	the same, submissions moved ±30 min  .545/1.22    .542/1.18    .440/1.14    .507
//	run limit in place of the prediction .563/1.32    .635/1.13    .696/1.04    .629  -.004   -.002
//	mean of the user's last 2            .533/1.28    .514/1.27    .525/1.10    .524  -.006   -.002
//	mean of the last 10 alike            .538/1.37    .560/1.23    .497/1.07    .531  -.007   -.002
//	candidates by predicted run time     .477/1.20    .588/1.21    .447/1.13    .500  -.023   -.020
//	candidates by run limit (SJF)        .484/2.04    .596/1.26    .454/1.12    .508  -.030   -.026
//	widest candidate first               .514/1.22    .637/1.25    .512/1.13    .552  -.001   +.001
//	three promises                       .524/1.15    .645/1.25    .481/1.09    .546  -.007   -.007
//	with fair share (weight 30)          .484/1.37    .617/1.28    .443/1.15    .509  -.006   -.002
//	run times known (no order can)       .301/1.35    .353/1.30    .138/1.06    .245  -.007   -.004
//	no guard (means of moved traces)     max 1.90     max 1.83                  .503
//	other orders:
//	EASY, SJF candidates                 .750/1.09    .966/1.13    .951/1.00    .883  -.029   -.025
//	wait/limit (xfactor)                 .568/1.36    .605/1.43    .662/1.21    .611  -.027   -.012
//	WFP3                                 .582/1.41    .590/1.53    .684/1.36    .617  -.026   -.009
//	shortest limit first                 .461/2.60    .897/20.4    .592/1.39    .626  -.109   -.086
//	smallest area first                  .428/14.0    1.398/96.6   .518/1.52    .677  -.174   -.106
//	  over 20 h first                    .562/1.34    .908/1.04    .762/1.00    .730  -.001   -.000
//	xfactor with fair share              .494/1.77    .598/3.17    .565/1.40    .551  -.044   -.029
//	wait/mean run, no guard              .500/2.10    .493/1.84    .480/1.24    .491  -.033   -.020
//	  over 48 h first                    .513/1.30    .690/1.05    .721/1.01    .634  -.003   -.001
//
// One replay has a standard deviation of about .03 in such a ratio (KTH's is lucky), so the order is worth about one half.
// A plain age guard costs HPC2N .2: one user's many long jobs become first; that is why the guard grows with the run limit
// and with the queue met. Changing any one constant (head start, exponents, guard, history) by half leaves the geometric
// mean between .495 and .54. KTH with arrivals in 0.9 of the time has a maximum wait of 1.65: single jobs that need the
// whole machine wait longer than under EASY.
package backfill
