package session

import (
	"context"
	"io"

	"fairslice/api/pb"
)

// Wait follows a batch job to its end (bsub -K) and returns its exit status; for an array 1 when an
// element failed. The user can leave with Ctrl-C; the job stays. watch is called again when it breaks.
func Wait(ctx context.Context, stderr io.Writer, watch func(context.Context, func(*pb.WatchResponse) error) error) int {
	a := text{w: stderr, waiting: true}
	for {
		var last *pb.WatchResponse
		err := watch(ctx, func(m *pb.WatchResponse) error {
			last = m
			switch state := m.GetJob().GetState(); {
			case m.Unfinished == 0:
			case state == "PEND" || state == "PSUSP" || state == "": // an array as a whole has no state
				a.pending()
			case !final(state):
				a.starting(m.Job)
			}
			return nil
		})
		switch {
		case last != nil && last.Unfinished == 0 && last.GetJob().GetCounts() != nil:
			a.say("<<Job is finished>>")
			return int(min(last.Failed, 1))
		case last != nil && last.Unfinished == 0:
			return a.ended(last.Job)
		case ctx.Err() != nil:
			return failed
		case refused(err):
			a.say(err.Error())
			return failed
		}
		rest(ctx)
	}
}
