// Package pgserver runs the private PostgreSQL cluster of a batchd that was given no database of the
// site's own. It finds the server programs, makes the cluster once, starts it, starts it again when it
// dies, and stops it. It knows no SQL and no schema; package store connects to Server.URL.
//
// What holds:
//
//  1. PostgreSQL never runs as root, and never listens on a network: one Unix socket, in a directory that
//     only its own user and root can enter. That directory is the whole access control.
//  2. A cluster is there whole or not at all: it is made beside its place and renamed into it.
//  3. No postmaster is started while a process of an earlier one still has the data directory as its
//     working directory, whoever was killed, and when.
//  4. One Server per Dir: a lock held by the process, so that it goes with the process.
//
// A cluster left running by a batchd that was killed is stopped and started anew rather than adopted.
// Then the postmaster is always our child (its end is seen at once, with its status), the
// settings are always this version's, and no backend can still be finishing a statement of the dead batchd.
// It costs one fast shutdown. The kernel usually has it done already: the postmaster asks for SIGINT on the
// death of its parent.
//
//	Dir/data    the cluster (0700, owned by the user it runs as)
//	Dir/run     the socket; a link to a shorter place when the path would not fit into a socket address
//	Dir/log     postgres.log, postgres.log.1
//	Dir/postgresql.conf, Dir/pg_hba.conf   written by us at each start
//	Dir/local.conf   optional, the site's own settings; read after ours
//	Dir/lock    held while a Server runs
package pgserver
