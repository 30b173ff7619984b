// Enter is the program that a contained job begins as; see package apptainer. Under the name fairslice-session it is the server
// beside a job; see package session. Build it with CGO_ENABLED=0: it runs in images that may have no C library.
package main

import (
	"os"

	"fairslice/nodes/apptainer"
	"fairslice/nodes/fgpu"
	"fairslice/nodes/session"
)

func main() {
	for i, a := range os.Args[:min(2, len(os.Args))] { // the second where who starts it cannot choose the first
		if a == session.ProgramName {
			os.Exit(session.Main(os.Args[i:]))
		}
	}
	apptainer.Enter(func() string {
		libc, err := fgpu.Classify(os.DirFS("/"))
		if err != nil {
			return err.Error()
		}
		return libc.Why()
	})
}
