package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"fairslice/api/client"
	"fairslice/queue"
)

// shapes is how many different requests the loaded jobs make.
const shapes = 1000

// load submits n jobs through the API from 32 clients at once.
func load(ctx context.Context, addr string, n int, dir string) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, 32)
	for range 32 {
		wg.Go(func() {
			u, err := client.NewUsers(client.Config{Address: addr})
			if err != nil {
				errs <- err
				return
			}
			defer u.Close()
			for {
				i := int(next.Add(1))
				if i > n {
					return
				}
				if _, err := u.Submit(ctx, submission(i, dir)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

func submission(i int, dir string) queue.Submission {
	spec := &queue.Spec{
		Name: fmt.Sprintf("job-%d", i%5000), Command: "python train.py --step 1", SubCWD: dir, SubHost: "bench",
		Stdout: "/dev/null", MinSlots: 1 + i%4, RunLimit: time.Duration(1+i%shapes) * time.Minute, Umask: 0o022,
	}
	return queue.Submission{
		Token: fmt.Sprintf("bench-%d", i), Spec: spec, Script: []byte("python train.py --step 1\n"),
		Env: [][]byte{[]byte("PATH=/usr/bin:/bin"), []byte("LANG=C.UTF-8")},
	}
}
