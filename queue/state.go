package queue

// State is what users see of an element: LSF's words and no others.
type State string

// Element states (IBM Spectrum LSF, bjobs reference). Done and Exit are final.
const (
	Pend  State = "PEND"  // waits
	PSusp State = "PSUSP" // held while waiting: by bsub -H or bstop
	Run   State = "RUN"   // has an attempt on a node
	USusp State = "USUSP" // stopped by its owner or an administrator
	SSusp State = "SSUSP" // stopped by the system
	Done  State = "DONE"  // ended with exit status 0
	Exit  State = "EXIT"  // ended otherwise
	Unkwn State = "UNKWN" // its node does not answer
	Zombi State = "ZOMBI" // removed while its node did not answer; whatever comes back is ended
)

// Final says that nothing can change the state any more, except removal after the clean period.
func (s State) Final() bool { return s == Done || s == Exit }

// Pending says that the element waits, held or not.
func (s State) Pending() bool { return s == Pend || s == PSusp }

// Live says that the element has an attempt that holds resources.
func (s State) Live() bool { return s == Run || s == USusp || s == SSusp || s == Unkwn || s == Zombi }

// Suspended says that the element is stopped, waiting or running.
func (s State) Suspended() bool { return s == PSusp || s == USusp || s == SSusp }

// Verdict is why an element ended other than by itself: LSF's TERM_ words, without the prefix text.
type Verdict string

// Verdicts. The empty one means that the program ended by itself.
const (
	TermNone           Verdict = ""
	TermRunLimit       Verdict = "TERM_RUNLIMIT"
	TermDeadline       Verdict = "TERM_DEADLINE"
	TermMemLimit       Verdict = "TERM_MEMLIMIT"
	TermGPUMemLimit    Verdict = "TERM_GPU_MEMLIMIT" // ours: LSF has no word for it
	TermGPULost        Verdict = "TERM_GPU_LOST"     // ours, too
	TermIdle           Verdict = "TERM_IDLE"         // ours, too
	TermOwner          Verdict = "TERM_OWNER"
	TermAdmin          Verdict = "TERM_ADMIN"
	TermForceOwner     Verdict = "TERM_FORCE_OWNER"
	TermForceAdmin     Verdict = "TERM_FORCE_ADMIN"
	TermRequeueOwner   Verdict = "TERM_REQUEUE_OWNER"
	TermRequeueAdmin   Verdict = "TERM_REQUEUE_ADMIN"
	TermCWDNotExist    Verdict = "TERM_CWD_NOTEXIST"
	TermExternalSignal Verdict = "TERM_EXTERNAL_SIGNAL"
	TermOrphan         Verdict = "TERM_ORPHAN_SYSTEM"
	TermPreExecFail    Verdict = "TERM_PRE_EXEC_FAIL"
	TermCPULimit       Verdict = "TERM_CPULIMIT"
	TermZombi          Verdict = "TERM_ZOMBI"
	TermUnknown        Verdict = "TERM_UNKNOWN" // the node or the shepherd was lost, and the exit status with it
	TermOther          Verdict = "TERM_OTHER"   // the job could not be started: Result.Detail says why
)

// Text is what LSF prints after the word and a colon.
func (v Verdict) Text() string { return verdictTexts[v] }

var verdictTexts = map[Verdict]string{
	TermRunLimit:       "job killed after reaching LSF run time limit",
	TermDeadline:       "job killed after reaching deadline",
	TermMemLimit:       "job killed after reaching LSF memory usage limit",
	TermGPUMemLimit:    "job killed after holding more GPU memory than its slice",
	TermGPULost:        "job killed because its GPU no longer answers",
	TermIdle:           "session killed after nobody used it for too long",
	TermOwner:          "job killed by owner",
	TermAdmin:          "job killed by root or LSF administrator",
	TermForceOwner:     "job killed by owner without time for cleanup",
	TermForceAdmin:     "job killed by root or LSF administrator without time for cleanup",
	TermRequeueOwner:   "job killed and requeued by owner",
	TermRequeueAdmin:   "job killed and requeued by root or LSF administrator",
	TermCWDNotExist:    "current working directory is not accessible or does not exist on the execution host",
	TermExternalSignal: "job killed by a signal external to LSF",
	TermOrphan:         "orphan job terminated automatically by LSF",
	TermPreExecFail:    "job killed after reaching pre-execution retry limit",
	TermCPULimit:       "job killed after reaching LSF CPU usage limit",
	TermZombi:          "job exited while LSF is not available",
	TermUnknown:        "unknown reason",
	TermOther:          "job could not be started",
}
