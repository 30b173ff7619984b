// Package command has the commands that users type: bsub, bjobs and the others of LSF, and our own. Each
// reads its options, asks batchd, and prints what package show makes of the answer. Nothing is decided
// here that batchd could decide.
//
// Rules:
//
//  1. What was asked for goes to standard output, everything else to standard error.
//  2. The exit status is 0 or 255, as in LSF; only bsub -K and -I give that of the job.
//  3. Nothing here reads the clock, the environment or the terminal but through Env and the streams given
//     to Run, so every command can be run in a test as it is.
//  4. The commands are started thousands of times by scripts: packages that work at start-up stay out.
package command
