// Package etc owns the configuration of batchd and noded: its shape, its defaults, and the reading of
// its file. It decides nothing about jobs. Both daemons read the same keys, so one file can serve a whole
// cluster; each uses its part.
//
// What holds:
//
//  1. All mistakes of a file are reported together, each with its line, its column and what is allowed.
//  2. An unknown key is a mistake. A misspelt limit must never mean "no limit".
//  3. "No limit" is said by leaving the key out. A limit of 0, or one that cannot be read, is a mistake.
//  4. Amounts of fGPU are read digit by digit. Floats never enter.
//  5. Every key, its default and its unit stand in fairslice.toml, and a test compares them with Default.
//
// From the file to a Config: tree.go reads TOML into a tree that knows where everything stands, decode.go
// lays the tree over the struct (units.go reads texts such as "4GiB"), validate.go judges the whole.
package etc
