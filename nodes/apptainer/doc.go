// Package apptainer builds the command line of a contained run, and judges images before they are run. It
// starts nothing: whoever keeps the job (the shepherd) runs what Command returns, as the job's user.
//
// Apptainer itself does not carry a job's environment faithfully (measured with 1.4.5). It packs environment and
// arguments as JSON into one block of at most 1 MiB, so bytes that are not UTF-8 change; a shell in the container sets the
// variables, and one whose name is not a shell's (BASH_FUNC_f%%, with-dash) loses them all; HOME, UID and others are its
// own; some are added; an image without the right scripts gets none. So they do not go through Apptainer. They lie in
// a start file, which is bound into the container together with a small static program, enter, that becomes the job:
//
//	apptainer exec … IMAGE /.fairslice/enter      reads /.fairslice/start, says "started", then execve
//
// What holds:
//
//  1. The job's arguments and environment arrive byte for byte, up to the kernel's own limits.
//  2. Exactly what Binds, Home and Workdir name of the host's files is visible in a contained run, beside what
//     the site's apptainer.conf binds for everyone.
//  3. "started" is written before the user's first instruction, and only then; without it, whatever the exit
//     status says, the job did not run.
package apptainer
