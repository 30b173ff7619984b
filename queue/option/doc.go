// Package option reads the command lines of the LSF-named commands. Their rules are older than
// getopt_long and no library has them: words with one dash (-noheader), attached and bundled letters
// (-u<user>, -aJ '*x*'), several options in one argument ("-q normal -n 2"), ids before options.
//
// A command is a table (Command); Parse turns arguments into the options given, in their order, and
// the operands. It does not know what a value means.
//
// An argument that begins with a dash is read as the first of these that applies:
//
//  1. a whole word of the table: -noheader, -q, -Is
//  2. with a blank in it: options and values side by side, as in "-o exit_code" or "-q normal -n 2"
//  3. letters: flags, of which the last may take a value, attached or following: -n2, -aJ '*x*'
//  4. a longer word with its value attached, where no reading by letters exists: -sp50
//
// Where 3 and 4 both apply (-eout.txt and -eo ut.txt), nothing is guessed: it is an error that shows
// both ways to write it.
package option
