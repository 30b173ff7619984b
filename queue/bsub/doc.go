// Package bsub turns a bsub or bmod command line into a queue.Spec. It owns the table of bsub's
// options (table.go), what they do to a Spec (Apply), and how the command line, the #BSUB lines of a
// script, and the environment come together (Build). It reads nothing itself: the caller hands in the
// script, the environment and the clock as Input.
//
// Rules:
//
//  1. The command line beats the script, in the script the last of an option wins, and both beat the
//     environment (LSB_DEFAULTQUEUE, LSB_DEFAULTPROJECT). Only -R adds up, over all of them, and -env
//     within one of them.
//  2. bsub and bmod share Apply, and the daemon may apply the same options again: applying them twice
//     gives the same Spec as once.
//  3. What is not implemented is an error. Only the words of IBM's CSM and JSM, which ask for nothing
//     we could leave out wrongly, are accepted with a note.
package bsub
