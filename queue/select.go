package queue

// Select is the text of a select[…] section in canonical form: fully parenthesised where needed,
// single blanks, "" for any host. ParseSelect makes it, Select.Match evaluates it.
type Select string
