// Package test holds the end-to-end tests: the real programs, as one real cluster of two nodes, driven by
// the commands that users type. It has no code of its own, may import anything, and nothing imports it.
//
//   - testdata/script/*.txt are transcripts: `$ command`, then all that it printed. script_test.go runs them,
//     transcript_test.go replaces what differs from run to run (ids, times, hosts, the user) by words as
//     wide, so that the widths of columns stay under test.
//   - bad_test.go sends what no command sends; users_test.go and ports_test.go are about who may do what (they need root);
//     session_test.go is about terminals.
//
// One script:
//
//	go test ./test -run 'TestScripts/^bjobs$' -v
//
// After a wanted change of texts, write the transcripts anew with -update, and read the difference:
//
//	go test ./test -run 'TestScripts/^bjobs$' -update
//
// The programs are built into a temporary directory, or taken from FAIRSLICE_BIN. With FAIRSLICE_TEST_LOG=FILE
// the cluster's log is kept.
package test
