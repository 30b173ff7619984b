// Package engine is the single writer. Commands become events, the events of many commands are
// committed in one transaction, and only then does anybody hear of them.
//
// How a command flows:
//
//	Submit, Control, NodeReport …      the planner's starts
//	            │                              │
//	            ▼                              ▼
//	      ┌────────────────── writer ───────────────────┐
//	      │ lock the book                               │
//	      │ each command: check, emit events (Apply)    │
//	      │ store.Commit(all events, all changed rows)  │  one transaction
//	      │ unlock                                      │
//	      │ send assignments and orders, answer callers │
//	      └─────────────────────────────────────────────┘
//
// Readers take the lock for reading, so they never see what is not durable: while a commit is under
// way they wait for it. Commands that arrive meanwhile make the next batch; that is the group commit.
//
// The planner runs beside the writer on a snapshot. Its starts come back as a command and are
// checked again, by the same nodes.Take that every allocation goes through, so a stale plan can be
// refused but never oversubscribes.
//
// The limits of the policy (badmin limit) are looked at in three places: a submission is refused
// what could never be met (limits.go); the planner knows what is left, so that nobody holds a place that a limit keeps him from
// (backfill.Limit); and the start itself is checked and counted in its own transaction (holdings.go), so that two of
// them cannot pass one limit. What a job counts against is said in one place, holdings.bounds. The slots of queues in the
// configuration are counted and checked by the writer in the same way (slots.go).
//
// Budgets (budget.go) are looked at in the same three places. What has ended is kept as sums that a restart reads from the ledger;
// what runs is counted from the book whenever it is asked for: so what a start is checked against is never a kept balance.
//
// If the database does not answer, the writer repeats the same batch until it does: the book is
// ahead of the database only inside one locked batch. If the leader's lease is lost, Run returns an
// error and the process must end: another leader may be writing.
package engine
