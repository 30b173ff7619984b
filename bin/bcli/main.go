// Command bcli is every user and administrator command in one program: called by the name of a command,
// as links to it are, it is that command; called as bcli, its first word is.
package main

import (
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"fairslice/bin/bcli/command"
)

func main() {
	debug.SetGCPercent(400) // a command lives for milliseconds, and drops each page of a listing at once
	dir, _ := os.Getwd()    // a directory that is gone: batchd says what it needs one for
	host, _ := os.Hostname()
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	env := command.Env{Environ: os.Environ(), Dir: dir, Host: host, Umask: mask, Now: time.Now}
	os.Exit(command.Run(os.Args, os.Stdin, os.Stdout, os.Stderr, env, command.Network))
}
