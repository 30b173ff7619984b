package backfill

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairslice/queue"
)

func TestPlan(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"jobs start in order while they fit", `
			nodes a=2
			job 1
			job 2
			job 3 limit=1h
			= start 1 on a
			= start 2 on a
			= wait 3 slots`},
		{"a job goes where least is left", `
			nodes a=8 b=4 c=6
			job 1 slots=3
			= start 1 on b`},
		{"the first that does not fit gets the promise, a short one passes it", `
			nodes a=4 b=2
			running 1 on a:4 ends 10m
			job 2 slots=6 limit=1h
			job 3 limit=10m
			= start 3 on b
			= reserve 2 at 10m on a b
			= wait 2 slots ~10m`},
		{"a long one does not pass it", `
			nodes a=4 b=2
			running 1 on a:4 ends 10m
			job 2 slots=6 limit=1h
			job 3 limit=11m
			= reserve 2 at 10m on a b
			= wait 2 slots ~10m
			= wait 3 reserved,slots ~1h10m`},
		{"a job without a limit does not pass it either", `
			nodes a=4 b=2
			running 1 on a:4 ends 10m
			job 2 slots=6 limit=1h
			job 3
			= reserve 2 at 10m on a b
			= wait 2 slots ~10m
			= wait 3 reserved,slots ~1h10m`},
		{"a long one starts beside the promise where both have room", `
			nodes a=4 b=4
			running 1 on a:4 ends 10m
			job 2 slots=6 limit=1h
			job 3 slots=2 limit=9h
			job 4 slots=1 limit=9h
			= start 3 on b
			= reserve 2 at 10m on a b
			= wait 2 slots ~10m
			= wait 4 reserved,slots ~1h10m`},
		{"B1: what runs where the first job cannot go does not move its start", `
			nodes a=4 b=4
			running 1 on a:4 ends 10m
			running 5 on b:4 ends 5h
			job 2 slots=4 limit=1h on=a
			job 3 slots=4 limit=9h on=b
			= reserve 2 at 10m on a
			= wait 2 slots ~10m
			= wait 3 slots ~5h`},
		{"B1: and a long job on its node does not either", `
			nodes a=4 b=4
			running 1 on a:3 ends 10m
			job 2 slots=4 limit=1h on=a
			job 3 limit=9h on=a
			job 4 limit=9h
			= start 4 on b
			= reserve 2 at 10m on a
			= wait 2 slots ~10m
			= wait 3 reserved ~1h10m`},
		{"B4: busy nodes are reserved, so endless small jobs do not starve a large one", `
			nodes a=1 b=1
			running 1 on a:1 ends 5m
			job 2 slots=2 limit=1h
			job 3 limit=1h n=5
			job 4 limit=5m n=5
			= start 4[1] on b
			= reserve 2 at 5m on a b
			= wait 2 slots ~5m
			= wait 3 slots ~1h5m
			= wait 4 slots ~3h5m`},
		{"B10: what never ends makes no promise, and hurts nobody", `
			nodes a=2
			running 1 on a:1
			job 2 slots=2
			job 3
			= start 3 on a
			= wait 2 slots`},
		{"B10: what never ends elsewhere does not matter", `
			nodes a=2 b=2
			running 1 on a:1
			running 5 on b:1 ends 1h
			job 2 slots=2 onehost
			= reserve 2 at 1h on b
			= wait 2 slots ~1h`},
		{"an attempt past its limit is expected to end at once", `
			nodes a=2
			running 1 on a:1 ends -5m
			job 2 slots=2
			= reserve 2 at 0s on a
			= wait 2 slots ~0s`},
		{"B14: a job that can never run holds no promise, the next one does", `
			nodes a=2
			running 1 on a:1 ends 1h
			job 2 slots=3
			job 3 slots=2
			= reserve 3 at 1h on a
			= wait 2 no-host
			= wait 3 slots ~1h`},
		{"B20: jobs that need no GPU pass those that wait for one", `
			nodes a=64,gpu=4x100
			running 1 on a:1/0=100 a:1/1=100 ends 9h
			job 2 whole=4 prio=9 limit=1h n=16
			job 3 slots=10 limit=99h
			= start 3 on a
			= reserve 2[1] at 9h on a
			= wait 2 gpu ~9h`},
		{"B22: a job whose nodes are down is passed, not refused", `
			nodes a=2 b=8,down c=8,closed
			job 2 slots=8
			job 3 slots=2
			= start 3 on a
			= wait 2 host-down`},
		{"no host may be used", `
			nodes a=2
			job 2 on=z
			= wait 2 not-selected`},
		{"a fraction goes to the GPU that is left with least", `
			nodes a=8,gpu=2x100
			running 1 on a:1/1=50 ends 1h
			job 2 fgpu=0.5
			job 3 whole=1
			= start 2 on a/1
			= start 3 on a/0`},
		{"a fraction goes to the node that is left with least of GPUs", `
			nodes a=8,gpu=2x100 b=8,gpu=1x100
			job 2 fgpu=0.5
			= start 2 on b/0`},
		{"a job without a GPU goes where no GPU is", `
			nodes a=2,gpu=4x100 b=8
			job 2
			= start 2 on b`},
		{"three sessions of 1 fGPU on 2: two run, one waits", `
			nodes a=8,gpu=1x200
			job 1 fgpu=1 limit=1h n=3
			= start 1[1] on a/0
			= start 1[2] on a/0
			= reserve 1[3] at 1h on a
			= wait 1 gpu ~1h`},
		{"a GPU slice by memory", `
			nodes a=8,gpu=1x100
			job 1 gmem=4
			job 2 gmem=5
			job 3 gmem=4
			= start 1 on a/0
			= start 3 on a/0
			= wait 2 gpu`},
		{"memory keeps a job out where slots are free", `
			nodes a=8,mem=8
			job 1 mem=6 limit=1h
			job 2 mem=6 limit=1h
			job 3 mem=2 limit=2h
			= start 1 on a
			= start 3 on a
			= reserve 2 at 1h on a
			= wait 2 memory ~1h`},
		{"licences", `
			nodes a=8,lic=1
			job 1 lic=1 limit=1h
			job 2 lic=1 limit=2h
			= start 1 on a
			= reserve 2 at 1h on a
			= wait 2 consumable ~1h`},
		{"a host alone waits until it is empty", `
			nodes a=8
			running 1 on a:1 ends 1h
			job 2 excl limit=1h
			job 3 limit=30m
			job 4 limit=2h
			= start 3 on a
			= reserve 2 at 1h on a
			= wait 2 exclusive ~1h
			= wait 4 reserved ~2h`},
		{"nobody starts beside who is alone", `
			nodes a=8
			job 1 excl limit=1h
			job 2
			= start 1 on a
			= reserve 2 at 1h on a
			= wait 2 exclusive ~1h`},
		{"ptile puts so many on each host", `
			nodes a=4 b=4 c=1
			job 1 slots=4 ptile=2
			= start 1 on a:2 b:2`},
		{"ptile with a rest", `
			nodes a=4 b=1
			job 1 slots=5 ptile=4
			= start 1 on a:4 b:1`},
		{"ptile above the slots is one host", `
			nodes a=4 b=3
			job 1 slots=3 ptile=8
			= start 1 on b`},
		{"too few hosts for ptile", `
			nodes a=8
			job 1 slots=4 ptile=2
			= wait 1 no-host`},
		{"one host does not spread", `
			nodes a=2 b=2
			job 1 slots=3 onehost
			= wait 1 no-host`},
		{"what fits one host is not spread", `
			nodes a=4 b=3
			running 9 on a:2
			job 1 slots=3
			= start 1 on b`},
		{"the others go to as few hosts as possible", `
			nodes a=1 b=4 c=3
			job 1 slots=6
			= start 1 on b:4 c:2`},
		{"a limit holds a job, which then holds no promise", `
			nodes a=4
			running 9 on a:1 ends 1h
			limit u=2
			job 1 slots=3 under=u
			job 2 slots=3
			= start 2 on a
			= wait 1 queue-limit`},
		{"a limit is counted down, and shared", `
			nodes a=8
			limit u=3
			limit q=9
			job 1 slots=2 under=u,q
			job 2 slots=2 under=u,q
			job 3 slots=1 under=u,q
			= start 1 on a
			= start 3 on a
			= wait 2 queue-limit`},
		{"an array runs so many at once", `
			nodes a=8
			job 1 n=5 most=2
			job 2
			= start 1[1] on a
			= start 1[2] on a
			= start 2 on a
			= wait 1 queue-limit`},
		{"one of a class that does not fit answers for all of it", `
			policy looks=3
			nodes a=1
			job 1
			job 2 n=1000 limit=5m
			job 3 n=1000 limit=5m
			job 4 limit=1h
			= start 1 on a
			= wait 2 slots
			= wait 4 slots`},
		{"so many starts and no more", `
			policy starts=2
			nodes a=8
			job 1 n=5
			= start 1[1] on a
			= start 1[2] on a
			= bounded`},
		{"so many looks and no more", `
			policy looks=1
			nodes a=8
			job 1
			job 2
			= start 1 on a
			= bounded`},
		{"the bound is not reached when nothing is left", `
			policy starts=1
			nodes a=8
			job 1
			= start 1 on a`},
	} {
		play(t, c.name, c.text)
	}
}

func TestReasonsAreForPeople(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"slots", `
			nodes a=4 b=2
			running 1 on a:1 b:1
			job 2 slots=4 onehost`, []string{"slots 2 [a b] Not enough job slot(s): needs 4 on one host, the freest has 3"}},
		{"slots on several hosts", `
			nodes a=4 b=2
			running 1 on a:1
			job 2 slots=6`, []string{"slots 2 [] Not enough job slot(s): needs 6 on several hosts, 5 are free"}},
		{"memory", `
			nodes a=4,mem=8
			job 1 mem=4
			job 2 mem=6`, []string{"memory 1 [a] Not enough memory: needs 6144 MB on one host, the freest has 4096 MB"}},
		{"a fraction", `
			nodes a=4,gpu=2x100
			running 1 on a:1/0=60 a:1/1=80
			job 2 fgpu=0.5`, []string{"gpu 1 [a] Not enough GPU: needs 0.5 fGPU on one GPU, the freest has 0.4"}},
		{"whole GPUs", `
			nodes a=4,gpu=2x100
			running 1 on a:1/0=10
			job 2 whole=2`, []string{"gpu 1 [a] Not enough GPU: needs 2 whole GPU(s) on one host, the freest has 1"}},
		{"slices by memory", `
			nodes a=4,gpu=1x100
			running 1 on a:1/0=60
			job 2 gmem=4`, []string{"gpu 1 [a] Not enough GPU: needs 1 slice(s) of 4096 MB, the freest host has room for 0"}},
		{"licences", `
			nodes a=4,lic=2
			job 1 lic=1
			job 2 lic=2`, []string{"consumable 1 [a] Not enough of resource lic: 1 free on the host with most"}},
		{"several, what can be waited for first", `
			nodes a=4,gpu=1x100 b=1 c=8,down
			running 1 on a:1/0=90 b:1
			job 2 fgpu=0.5`, []string{
			"gpu 1 [a] Not enough GPU: needs 0.5 fGPU on one GPU, the freest has 0.1",
			"slots 1 [b] Not enough job slot(s): needs 1 on one host, the freest has 0",
			"host-down 1 [c] Closed or unavailable"}},
		{"never", `
			nodes a=4 b=2
			job 2 slots=5 onehost`, []string{"no-host 2 [] No host could ever run it: Not enough job slot(s): needs 5 on one host, the freest has 4"}},
		{"closed", `
			nodes a=1 b=8,closed c=8,down
			job 2 slots=8`, []string{"host-down 2 [] Hosts that could run it are closed or unavailable: 2"}},
		{"none", `
			nodes a=1
			job 2 on=b`, []string{"not-selected 0 [] There are no suitable hosts for the job"}},
		{"at most five hosts are named", `
			nodes a=1 b=1 c=1 d=1 e=1 f=1
			running 1 on a:1 b:1 c:1 d:1 e:1 f:1
			job 2`, []string{"slots 6 [a b c d e] Not enough job slot(s): needs 1 on one host, the freest has 0"}},
	} {
		played := run(t, c.name, c.text)
		played.plan()
		var got []string
		for _, r := range played.p.Explain(played.jobs[played.order[len(played.order)-1]].Shape).Reasons {
			got = append(got, showReason(r))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got\n\t%s\nwant\n\t%s", c.name, strings.Join(got, "\n\t"), strings.Join(c.want, "\n\t"))
		}
	}
}

func showReason(r queue.Reason) string {
	return fmt.Sprintf("%s %d %v %s", r.Kind, r.Hosts, r.Nodes, r.Text)
}
