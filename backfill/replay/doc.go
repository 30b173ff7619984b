// Package replay serves workloads of the past by the policies of the present, with the code that plans and places
// in the daemon: traces in the Standard Workload Format, Alibaba's GPU traces, and a site's own history. What comes
// out are the figures of the field, so that policies can be compared with each other and with what is published.
//
// It owns the reading of traces, the order of events, and the definitions of the figures (see Result). It decides
// nothing about who starts when or where: that is backfill and backfill/placement.
//
// What holds:
//
//  1. A replay is deterministic: same trace, same options, same schedule.
//  2. With the rules of the published results (see Workload and Replay) their start times come out, to the second.
//     oracle_test.go is the reference as plainly as it can be written: it gives the published starts of the real
//     traces, and the planner gives the oracle's starts on any workload.
//  3. A trace is believed as far as it is understood: a line that is not of the format is an error with its number,
//     or is counted; what is left out of a replay is counted by its reason.
package replay
