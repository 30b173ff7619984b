// Package client is the other end of package api: Users for commands, Node for node daemons.
//
// Commands are run thousands of times by scripts, so their calls do not go through an HTTP client on
// the Unix socket: unary calls and listings speak Connect's protocol over one bare HTTP/1.1 exchange.
// Only Attach and the network use net/http.
//
// # What a node's agent has to know
//
// Node.Run holds one connection for ever and calls a Handler:
//
//	Hello()                          what to say first; called at each attempt to connect
//	Connected(up, heartbeatEvery)    welcome: send heartbeats, repeat what is not acknowledged
//	Assign(a), Order(o), Acknowledged(id, attempt, kind)   in the order in which batchd sent them
//	OpenPipe(order, pipe)            in a goroutine of its own; the pipe is closed when it returns
//	Disconnected(err)                after each Connected, when up is dead; Run dials again by itself
//
// All but OpenPipe are called from one goroutine, one at a time: they must not wait for long, and may
// call up. The same assignment or order may come again after a reconnect. A pipe may be asked for a
// moment before its attempt is known: Fail, and batchd asks again. The output of a session that
// nobody was tied to yet has to be kept until somebody is, also when the attempt has ended.
package client
