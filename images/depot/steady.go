package depot

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// steady writes to the disk as it goes. Else gigabytes would wait in memory until the database, whose log is on the same disk,
// asks for its own few bytes to be written, and has to wait for all of them: longer than a leader may be silent.
type steady struct {
	f    *os.File
	late int // bytes that are not on the disk yet
}

const steadyBytes = 16 << 20

func (s *steady) Write(p []byte) (int, error) {
	n, err := s.f.Write(p)
	if s.late += n; err == nil && s.late >= steadyBytes {
		s.late, err = 0, s.f.Sync()
	}
	return n, err
}

// writeEvery is how often what is being made is written to the disk.
const writeEvery = 500 * time.Millisecond

// writeSteadily does for the programs and packages that make an image what steady does for an upload, until stop.
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
