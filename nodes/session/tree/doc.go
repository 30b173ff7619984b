// Package tree copies files and directories through a stream of bytes (bcp): Send writes it, Receive reads it. The stream
// is a tar archive (POSIX pax), a directory before what is in it.
//
// Kept are permissions (without set-uid, set-gid and sticky), times of files and directories, and symbolic links as such. Hard links
// become files of their own, holes stay holes, and devices, pipes and sockets are left out, with a note.
//
// Receive trusts nothing of the stream. What holds, whatever comes:
//
//  1. Nothing is written outside of the destination: names are plain (no "..", not absolute), each directory on the way
//     is opened below the one before it (os.Root), and none may be a symbolic link.
//  2. A file appears whole, under a temporary name first. Only a killed process leaves such a name behind (.bcp-…).
//  3. Memory does not grow with the stream; the disk's end is an error.
package tree
