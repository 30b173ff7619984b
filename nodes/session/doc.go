// Package session is what runs beside a job: a small server in the job's own surroundings (its container, cgroup, fence,
// user and environment), and the node daemon's end of it. For a user it runs programs there, connects to ports of
// programs there, and copies files in and out; for batchd it sends the root file system (snapshot.go).
//
// The server is the program nodes/apptainer/enter under another name. In a container, enter starts it right before
// it becomes the job; on the bare node the node daemon starts it when it is first asked for. It listens on a socket
// in the job's private directory, which only the job's user and root can reach, and serves who the kernel says is one of
// these two.
//
//	bexec ── batchd ── noded ── Open ── socket ── Serve ── the program
//
// One connection is one request: a frame with the Request, the answer (taken or refused), then frames both ways until
// frameExit, or, for a connection to a port, the end of both directions.
//
// What holds:
//
//  1. The job does not notice: the server is no child of the job, holds none of its descriptors, and ends when
//     the job's first process does. Killing it loses what runs beside the job, and nothing else.
//  2. Neither end trusts the other: a frame has a bounded size, and one that is out of place ends the connection.
//  3. A program never blocks its own signals: input that it does not read is bounded by a window (Window), so the frame
//     behind it always arrives.
package session
