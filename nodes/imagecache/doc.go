// Package imagecache keeps the files of images on a node: fetched from batchd once, checked by their digest, and dropped
// again, the least recently used first, when there is no room. What a running job uses is never dropped.
//
//	blobs/<sha256>.sif        every file, for the node daemon alone
//	partial/<sha256>          what has arrived of one; a later try goes on from there
//	public/<sha256>.sif       a link for images that everybody may use
//	users/<uid>/<sha256>.sif  a link for images that this user may use, in a directory that only he can enter
//
// Links are hard links: they take no room, and Apptainer opens them with the user's rights. A user who knows the digest of
// another's private image finds nothing under it.
package imagecache
