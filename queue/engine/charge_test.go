package engine_test

import "testing"

// The rules of queue.ChargeOf as whole stories; TestWhateverHappens compares every charge with what was held.
func TestCharges(t *testing.T) {
	play(t, "from dispatch to end, the wait before the command runs included; the wait for a node is its wait", `
		submit ada fgpu=0.5 slots=2
		sleep 30s
		join a=4,gpu=1
		sleep 10s
		report a 1#1 began
		sleep 50s
		report a 1#1 ended:0
		ledger 1 = 1m0s, suspended 0s, waited 30s: done
		charged 1 = 1: 120 slot-s 30 fGPU-s`)
	play(t, "cancelled before its start", `
		submit ada
		sleep 1h
		kill ada 1
		show 1 = EXIT 0 TERM_OWNER
		ledger 1 = nothing`)
	play(t, "suspended time is charged, and kept apart", `
		join a=1
		submit ada
		report a 1#1 began
		sleep 10s
		stop ada 1
		report a 1#1 stopped
		sleep 1m
		resume ada 1
		report a 1#1 resumed
		sleep 5s
		report a 1#1 ended:256
		ledger 1 = 1m15s, suspended 1m0s, waited 0s: exit`)
	play(t, "an administrator's requeue: two charges, the second from its own dispatch, its wait from the requeue", `
		join a=1
		submit ada
		report a 1#1 began
		sleep 10s
		requeue root 1
		sleep 2s
		report a 1#1 ended:9
		sleep 7s
		report a 1#2 began
		report a 1#2 ended:0
		ledger 1 = 12s, suspended 0s, waited 0s: requeued TERM_REQUEUE_ADMIN; 7s, suspended 0s, waited 0s: done`)
	play(t, "an administrator's kill, and one that leaves no time", `
		join a=2
		submit ada
		submit ada
		report a 1#1 began
		report a 2#1 began
		sleep 10s
		kill root 1
		sleep 5s
		report a 1#1 ended:9,TERM_ADMIN
		ledger 1 = 15s, suspended 0s, waited 0s: exit TERM_ADMIN
		gone a
		sleep 5s
		kill root 2 force
		ledger 2 = 20s, suspended 0s, waited 0s: exit TERM_FORCE_ADMIN`)
	play(t, "a lost node: charged until the loss is settled, for a job that waits again as for one that is found to have ended", `
		join a=2
		submit ada rerun
		submit ada
		report a 1#1 began
		report a 2#1 began
		sleep 10s
		gone a
		show 1 = UNKWN a#1
		sleep 3m
		show 1 = PEND
		show 2 = UNKWN a#1
		join a=2 2#1:running
		sleep 10s
		report a 2#1 lost
		show 2 = EXIT 0 TERM_UNKNOWN
		ledger 2 = 3m20s, suspended 0s, waited 0s: exit TERM_UNKNOWN`)
	play(t, "a start that fails costs what it held, and back-off is waited for", `
		join a=1
		submit ada
		sleep 4s
		report a 1#1 failed:image
		sleep 10s
		report a 1#2 began
		report a 1#2 ended:0
		ledger 1 = 4s, suspended 0s, waited 0s: failed; 8s, suspended 0s, waited 2s: done`)
	play(t, "held, and with a time to begin: not waited for", `
		join a=1
		submit ada hold
		sleep 1m
		resume ada 1
		report a 1#1 ended:0
		ledger 1 = 0s, suspended 0s, waited 0s: done
		submit ada begin=5m
		sleep 6m
		report a 2#1 ended:0
		ledger 2 = 1m0s, suspended 0s, waited 0s: done`)
	play(t, "a restart changes no charge", `
		join a=1
		submit ada
		submit ada
		report a 1#1 began
		stop ada 1
		report a 1#1 stopped
		sleep 1m
		stop ada 2
		restart
		join a=1 1#1:stopped
		sleep 1m
		resume ada 2
		report a 1#1 ended:0
		sleep 1s
		report a 2#1 ended:0
		ledger 1 = 2m0s, suspended 2m0s, waited 0s: done
		ledger 2 = 1s, suspended 0s, waited 1m0s: done`)
}
