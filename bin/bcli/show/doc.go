// Package show turns what batchd says into the texts that LSF's commands print, to the letter: widths,
// cuts and words, because programs read them. Each function appends to a byte slice and does nothing
// else, so a hundred thousand rows cost little and every text can be tested as bytes.
//
// Rules that hold everywhere:
//
//  1. A value never breaks its line: control characters, line ends and bytes that are no UTF-8 are
//     shown as escapes (\n, \x1b, \xff). Backslashes themselves are not escaped: names are read by people.
//  2. Widths count characters, never bytes, so a cut never leaves half a character.
//  3. An empty value is "-" in text and "" in JSON.
//  4. Times are printed in Style.Loc. The present is Style.Now.
package show
