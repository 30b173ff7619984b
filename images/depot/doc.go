// Package depot keeps the files of the catalogue's images where batchd runs: it takes what users send, makes SIF files of
// it, and gives them to the nodes.
//
//	incoming/<uid>-<name>    what has arrived of an upload; a later try goes on from there
//	incoming/.fairslice-sif-…  work of package sif, and images that are being made
//	files/<sha256>.sif       the images, each once however many names it has
//	public/<sha256>.sif      links to those that everybody may see, for nodes that share the directory (Config.Shared)
//	lock                     held as long as a depot is open
//
// An image is in files, whole, checked and on the disk, before the catalogue has it; Add keeps it from Sweep until then. Sweep
// removes what the catalogue does not have. So whoever is killed when, the catalogue never names a file that is not there,
// and what nobody needs goes.
package depot
