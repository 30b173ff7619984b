// Package session ties this terminal to a job: bsub -I, -Ip and -Is, and battach; and it waits for jobs
// (bsub -K). It owns the terminal's mode while it runs, and gives it back as it was on every way out.
//
// A session outlives batchd: when the stream breaks, the terminal goes back to its own mode, so that
// Ctrl-C works, and the session is attached again as soon as batchd answers. Only the job's end, a refusal or
// the user ends it.
//
// On a terminal the line "~." leaves the session to battach, as "~~" at the beginning of a line stands for "~".
//
// Signals. With a pseudo-terminal the terminal is raw: Ctrl-C is a byte like any other, and the hang-up of
// the terminal leaves the session to battach. Without one, INT, QUIT and HUP go to the job. TERM always goes
// to the job. Before the job has started, INT and TERM take it back.
package session
