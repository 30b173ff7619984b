// Package store keeps everything that must survive: events, current rows, charges, scripts, and who leads.
// It holds all SQL, and nothing else in Fairslice talks to PostgreSQL. It decides nothing: what an event
// means is queue's business, who may write is the lease's.
//
// How it is used: Open, then Campaign (returns when this process leads), then Load, then Commit for every
// batch of the single writer, under the term of the lease.
//
// What holds, and where it is written down a second time:
//
//  1. A batch is there whole or not at all, and Commit returns nil only when it is on disk: one transaction,
//     in one round trip; synchronous_commit is switched on where the site has it off.
//  2. A batch that was committed is never committed again: events has seq as its key, seq has no gaps, and a
//     batch whose numbers are taken is compared with what is there (function guard_commit).
//  3. A write under an old leader's term fails: the first statement of each transaction holds the lease's row
//     against a change of term, so a takeover waits for it or is seen by it (function guard_commit).
//  4. On no GPU do the slices exceed its capacity, on no node do slots and memory exceed what it has:
//     CHECKs on gpus and nodes; and the slices, derived from the events and not from the Book, are summed
//     again in the database (trigger slices_fit).
//  5. An attempt is charged exactly once: key of charges; Commit refuses the end of an attempt without a charge. The hourly
//     sums have each charge once and whole: each step adds charges and moves the mark of how far it came in one
//     transaction (RollUp); CheckRollUp compares all of them with the charges, and a test both with what was held. The same is
//     true of the sums that reports are made of (ended_sums, held_sums); a test compares reports from sums with reports from charges.
//     All of an archive's jobs are in the database or none is: Purge and Restore are one transaction each, with the row of
//     archives; what the charges had added to the sums stays beside them, and CheckRollUp counts it.
//  6. A live element has exactly one attempt, a final one has a result: CHECKs on elements.
//  7. Local clocks of different machines are never compared: leases expire by the database's clock.
//
// What is written per job: one event and one row at submission, however many elements it has. An element
// gets a row when it leaves its first state. A job that ran once has left, when it is forgotten, about four
// events, one charge and one row of history (some 3 KB); at a million jobs a day that is 3 GB a day, so sites of
// that size will want the events table partitioned by seq: nothing here depends on its being one table.
//
// Foreign keys: none. slices → gpus is part of the trigger that sums them (a real key locks each GPU once more),
// elements → jobs would be a look-up and a row lock per new element for two rows that the same transaction writes,
// and Load refuses an element without its job; blobs are protected by rules of their own (blobs.go); events and
// charges outlive all they name.
package store
