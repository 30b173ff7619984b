// Package shepherd is what outlives the node daemon: a small process that starts jobs, waits for them and keeps
// their exit statuses, and the daemon's side of it (Client). It knows nothing of states, limits or queues.
//
// One shepherd serves all jobs of one life of the daemon. A restarted daemon spawns a new one for new jobs and connects to
// the old ones (Sockets, Connect); a shepherd ends when the daemon that spawned it is gone and its last job has been
// acknowledged. Each attempt has a file DIR/KEY/run: made empty, and exclusively, and marked before the fork; then a line with
// Started; then, before anybody is told, a line with Exited. DIR is best on a tmpfs such as /run: nothing in it
// means anything after a reboot, and making files is most of what a job costs the shepherd.
//
// What holds:
//  1. An attempt key is started at most once, whichever shepherd is asked (the file is made exclusively; a start that
//     failed unmakes it).
//  2. No exit status is lost by killing any process at any instruction. A killed shepherd's jobs go on as children
//     of the daemon, the nearest subreaper, which waits for them with Adopt; a killed daemon's shepherd writes them down and
//     tells the next daemon. Only when both are killed is the status of a job that ends afterwards unknown (ErrLost).
//  3. Files are opened, and the working directory is entered, with the user's rights, never with root's.
//  4. A job inherits no descriptor but 0, 1 and 2, and no ignored or blocked signal.
//
// Files are not synced: a write survives the death of any process, and a machine that lost power has no job
// left to ask about; the daemon gives those the verdict of a reboot.
//
// A job costs one fork and one short-lived thread: the thread takes on the umask, the working directory, the user's
// rights and the cgroup, which Linux keeps per thread, forks, and ends. No helper program is executed.
package shepherd
