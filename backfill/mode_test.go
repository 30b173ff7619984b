package backfill

import "testing"

// GPUs that are not shared by just anybody: instances of MIG, and GPUs in ModeMPS, which one user has at a time.
func TestModesOfGPUs(t *testing.T) {
	for name, text := range map[string]string{
		"a fraction takes the smallest instance that suffices, and all of it": `
			nodes a=8,mig=3+1
			job 1 fgpu=0.1 limit=1h
			job 2 fgpu=0.1 limit=1h
			job 3 fgpu=0.1 limit=1h
			= start 1 on a/1
			= start 2 on a/0
			= reserve 3 at 1h on a
			= wait 3 gpu ~1h`,
		"who asks for a whole GPU is told that there is none": `
			nodes a=8,mig=3+3+1
			job 1 whole=1 limit=1h
			= wait 1 no-host`,
		"by memory too": `
			nodes a=8,mig=3+1
			job 1 gmem=1 limit=1h
			job 2 gmem=2 limit=1h
			= start 1 on a/1
			= start 2 on a/0`,
		"an instance is promised when it is free, not when a part of it would be": `
			nodes a=8,mig=3
			running 1 on a:1/0=42 user=ann ends 10m
			job 2 fgpu=0.1 limit=1h
			= reserve 2 at 10m on a
			= wait 2 gpu ~10m`,
		"one user's jobs share a GPU, another's wait": `
			nodes a=8,gpu=1x100,mps
			job 1 user=ann fgpu=0.3 limit=1h
			job 2 user=bob fgpu=0.3 limit=1h
			job 3 user=ann fgpu=0.3 limit=1h
			= 0s start 1 3 on a/0
			= 1h start 2 on a/0`,
		"but not beyond a promise to another": `
			nodes a=8,gpu=1x100,mps
			job 1 user=ann fgpu=0.3 limit=1h
			job 2 user=bob fgpu=0.3 limit=1h
			job 3 user=ann fgpu=0.3 limit=2h
			= start 1 on a/0
			= reserve 2 at 1h on a
			= wait 2 gpu ~1h
			= wait 3 reserved ~2h`,
		"a promise does not count on sharing with another": `
			nodes a=8,gpu=2x100,mps
			running 1 on a:1/0=50 user=ann ends 10m
			running 2 on a:1/1=50 user=bob ends 20m
			job 3 user=cid fgpu=0.5 limit=1h
			= reserve 3 at 10m on a
			= wait 3 gpu ~10m`,
		"a promise beside one's own waits for room only": `
			nodes a=8,gpu=2x100,mps
			running 1 on a:1/0=80 user=ann ends 10m
			running 2 on a:1/0=20 user=ann ends 30m
			running 3 on a:1/1=50 user=bob ends 20m
			job 4 user=ann fgpu=0.5 limit=1h
			= reserve 4 at 10m on a
			= wait 4 gpu ~10m`,
		"when the last of a user's slices ends the next user comes": `
			nodes a=8,gpu=1x100,mps
			running 1 on a:1/0=10 user=ann ends 10m
			running 2 on a:1/0=10 user=ann ends 20m
			job 3 user=bob fgpu=0.1 limit=1h
			job 4 user=bob fgpu=0.1 limit=1h
			= 20m start 3 4 on a/0`,
		"two users' promises on one GPU do not overlap": `
			policy protected=2
			nodes a=8,gpu=1x100,mps
			running 1 on a:1/0=10 user=ann ends 10m
			job 2 user=bob fgpu=0.1 limit=1h
			job 3 user=cid fgpu=0.1 limit=1h
			= reserve 2 at 10m on a
			= reserve 3 at 1h10m on a
			= wait 2 gpu ~10m
			= wait 3 gpu ~1h10m`,
		"GPUs in another mode are for all, beside one in ModeMPS": `
			nodes a=8,gpu=1x100,mps b=8,gpu=1x100
			running 1 on a:1/0=10 user=ann ends 10m
			running 2 on b:1/0=10 user=ann ends 10m
			job 3 user=bob fgpu=0.1 limit=1h
			= start 3 on b/0`,
		"hosts on which as much is held by others are not alike": `
			nodes a=8,gpu=1x100,mps b=8,gpu=1x100,mps
			running 1 on a:1/0=50 user=ann ends 10m
			running 2 on b:1/0=50 user=bob ends 10m
			job 3 user=bob fgpu=0.5 limit=1h
			job 4 user=ann fgpu=0.5 limit=1h
			= start 3 on b/0
			= start 4 on a/0`,
		"a promise on a GPU that turns out to be unfenced moves": `
			nodes a=8,gpu=1x100 b=8,gpu=1x100
			running 1 on a:1/0=100 user=ann ends 10m
			running 2 on b:1/0=100 user=ann ends 20m
			job 3 fgpu=0.5 limit=1h
			= reserve 3 at 10m on a
			= wait 3 gpu ~10m
			unfence a
			= reserve 3 at 20m on b
			= wait 3 gpu ~20m`,
		"in an advance reservation: not beside who is over its limit": `
			nodes a=8,gpu=2x100,mps
			window w a:4/0=100,1=100 10m-3h
			running 1 on a:1/0=30 user=ann ends never
			at 10m
			job 2 in=w user=bob fgpu=0.3 limit=1h
			job 3 in=w user=cid fgpu=0.3 limit=1h
			= start 2 on a/1
			= reserve 3 at 10m on a
			= wait 3 gpu ~10m`,
	} {
		t.Run(name, func(t *testing.T) { play(t, name, text) })
	}
}

func TestReasonSaysThatAnotherUserHasTheGPU(t *testing.T) {
	c := run(t, "mps", `
		nodes a=8,gpu=1x100,mps b=8,gpu=1x100
		running 1 on a:1/0=10 user=ann ends 10m
		running 2 on b:1/0=100 user=ann ends 10m
		job 3 user=bob fgpu=0.1 limit=1h`)
	c.p.Plan(c.now)
	w := c.p.Explain(c.jobs[3].Shape)
	if want := "GPU in use by another user (MPS): what is left of it is for that user only"; len(w.Reasons) != 1 || w.Reasons[0].Text != want || w.Reasons[0].Hosts != 2 {
		t.Errorf("the reasons are %+v, want %q", w.Reasons, want)
	}
}
