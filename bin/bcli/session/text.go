package session

import (
	"io"
	"strconv"
	"strings"

	"fairslice/api/pb"
)

// text says on standard error what LSF says of a job under way, each thing once.
type text struct {
	w       io.Writer
	waiting bool // <<Waiting …>> is still to be said
	saidRun bool
}

// say writes a line. In a raw terminal a line end needs the return as well, and elsewhere it does no harm
// to leave it out; the terminal is never raw when this is called for anything but <<Starting on …>>,
// which comes before it is made raw.
func (t *text) say(s string) { _, _ = io.WriteString(t.w, s+"\n") }

func (t *text) pending() {
	if t.waiting {
		t.waiting = false
		t.say("<<Waiting for dispatch ...>>")
	}
}

func (t *text) starting(j *pb.Job) {
	if t.saidRun || len(j.GetAlloc()) == 0 {
		return
	}
	t.pending()
	t.saidRun = true
	t.say("<<Starting on " + hostNames(j) + ">>")
}

// ended says how the job ended, and is the exit status.
func (t *text) ended(j *pb.Job) int {
	started := j.GetDispatched() != 0 || len(j.GetAlloc()) > 0
	switch {
	case j.GetState() == "EXIT" && !started:
		t.say("<<Terminated while pending>>")
		return 126
	case t.saidRun || !started:
	default: // a job so short that its start was never seen
		t.starting(j)
	}
	if v := j.GetVerdict(); strings.HasSuffix(v, "_OWNER") || strings.HasSuffix(v, "_ADMIN") {
		t.say("<< Job <" + strconv.FormatInt(j.GetId(), 10) + "> has been terminated by user or administrator >>")
	} else {
		t.say("<<Job is finished>>")
	}
	switch {
	case j.GetState() == "DONE":
		return 0
	case j.GetHasResult() && j.GetStatus() >= 0 && j.GetExitCode() != 0:
		return int(j.GetExitCode())
	}
	if j.GetDetail() != "" {
		t.say(j.GetDetail())
	}
	return failed
}
