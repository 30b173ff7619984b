// Package crash kills the processes of a whole cluster while it works, and looks whether anything that was
// acknowledged is lost or done twice (invariant 7 of ARCHITECTURE.md). It has tests only.
//
// FAIRSLICE_CRASH_SEED repeats a run of TestAcceptance, FAIRSLICE_CRASH_JOBS sets its size, and
// FAIRSLICE_CRASH_BIN names a directory of programs built before, to save their build.
package crash
