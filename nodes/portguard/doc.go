// Package portguard keeps users of one machine off each other's network programs. All jobs of a node share its addresses, so
// without it any program here can connect to any port of 127.0.0.1 whose program asks for no password. It knows nothing of jobs:
// noded says which users have some.
//
// A guarded port is one at which a program of such a user listens, or that is kept for one (a claim). The kernel lets a TCP
// connection that does not leave the machine to it only if its socket was made by that user or by root; anybody else gets a
// reset, as if nobody listened. This is one nftables table in the family inet, which is there only while there are such ports:
//
//	chain output, for the first segment of connections through lo:
//	  made by root                                → let go
//	  to an address and port in at4 (at6)         → let go if (address, port, user) is in at4_users, else reset
//	  to a port in any4 (any6)                    → let go if (port, user) is in any4_users, else reset
//
// The kernel prefers a listener at the very address to one at all addresses, and so do the rules. A user who listens at the
// port of another, at an address of his own, thereby gets no way to the other's.
//
// What holds:
//
//  1. A change replaces the whole table in one transaction: at no instant is there half of one, and whatever a noded that was
//     killed has left stays as it is until the next one's first look replaces it. Claims do not outlive their noded.
//  2. A port is guarded for who listens there, by the kernel's own word (sock_diag), never by somebody's claim alone: a claim
//     ends when another user listens at its port.
//  3. Ports of root and of system users (below uid 1000), and of users without jobs here, are never guarded. A subordinate id of
//     a user namespace is no user with jobs, either.
//
// Programs are found by a look once a second, so one that nobody has announced is open for so long. A claim is guarded before
// its program starts. What comes from other machines is not judged: processes of one job on several nodes must reach each
// other, and who sends from there the kernel here does not know.
package portguard
