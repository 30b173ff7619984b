package depot

import (
	"time"

	"golang.org/x/sys/unix"
)

// writeEvery is how often what is being made is written to the disk.
const writeEvery = 500 * time.Millisecond

// writeSteadily does for the programs and packages that make an image what steady.Writer does for an upload: the database, whose log may be on the
// same disk, must not wait for gigabytes longer than a leader may be silent. It goes on, until stop.
func (d *Depot) writeSteadily() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(writeEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				_ = unix.Syncfs(int(d.lock.Fd())) // what fails here fails again where it counts
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
