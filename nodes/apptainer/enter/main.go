// Enter is the program that a contained job begins as; see package apptainer. Build it with CGO_ENABLED=0: it
// runs in images that may have no C library.
package main

import "fairslice/nodes/apptainer"

func main() { apptainer.Enter() }
