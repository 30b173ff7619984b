// Package api is batchd's door: it serves the Users service to commands and the Nodes service to node
// daemons, over a Unix socket and over TLS, and translates between the protocol and the engine.
//
// It owns authentication (who calls), the nodes' connections (Hub) and the shape of listings. It does
// not decide anything about jobs: rules are the engine's, which it names by the interfaces below.
//
//  1. Who calls is what the kernel (Unix socket) or a token (TLS) says, never what a message claims.
//  2. A user's command is answered, and a node's report acknowledged, only when the engine says that it is durable.
//  3. Reports of one attempt reach the engine in the order in which the node sent them.
//  4. A node, or a user, that does not read or write costs bounded memory and is cut off, and delays nobody else.
//  5. What a failure inside looks like stays in the log; users see one of the codes of package wire.
//
// The messages and their conversion are in api/pb and api/wire, the other end is in api/client, and
// the certificates in api/pki.
package api
