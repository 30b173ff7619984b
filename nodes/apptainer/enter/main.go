// Enter is the program that a contained job begins as; see package apptainer. Build it with CGO_ENABLED=0: it
// runs in images that may have no C library.
package main

import (
	"os"

	"fairslice/nodes/apptainer"
	"fairslice/nodes/fgpu"
)

func main() {
	apptainer.Enter(func() string {
		libc, err := fgpu.Classify(os.DirFS("/"))
		if err != nil {
			return err.Error()
		}
		return libc.Why()
	})
}
