// Package sif reads, checks, makes and fetches SIF files, the images that Apptainer runs.
//
// What comes from outside (archives, root directories, OCI images, SIF files) is hostile until it was read:
//
//	source ──▶ layers ──▶ tree ──▶ directory ──▶ mksquashfs ──▶ temporary file beside dst ──▶ dst
//	         (read twice) (judged)  (written)                  (checked, synced)       (renamed)
//
// Convert reads the layers of an image once to make the tree, in memory, and judges each entry and the limits while
// it reads. Only when all was found good, it reads again and writes the files of the tree, and nothing else, into a
// private directory; symbolic links are written last, so nothing is ever written through one. The names that are
// written are the tree's, through os.Root.
//
// What holds:
//
//  1. dst is the old file, or the whole new one, whoever is killed when. The digest is that of the bytes in dst.
//  2. What was refused, cancelled or has failed leaves nothing behind; what a killed process leaves, Sweep removes.
//  3. In what Convert makes, all files belong to root, whoever runs it and whoever owned them: Apptainer runs as the job's
//     user, for whom other owners mean nothing. Permissions are kept, except that the set-user-id and set-group-id bits
//     are dropped, and that the owner can read everything. Extended attributes are dropped.
//  4. The same source gives the same bytes, with the same version of mksquashfs.
//
// Keys.Check holds the signatures of a SIF file against the keys that a site trusts. They count where one key has signed each
// object of the file: of a signature that leaves out the labels, or a second file system, nobody could tell what it is worth.
//
// What is not looked at: the files inside the squashfs of a SIF file that somebody brings. Apptainer mounts it read-only,
// without devices and set-user-id bits, and the kernel checks it as it reads; Inspect checks the headers, so that a file
// that lies about its size or its kind does not get so far.
//
// Programs: mksquashfs, unsquashfs (before 4.5 it cannot show one file: then labels and service definitions that are only
// inside the squashfs are not seen), and apptainer for Pull.
package sif
