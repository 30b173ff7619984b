// Package proxy shows the apps of sessions to browsers: it takes requests under addresses that nobody can guess, and passes
// them to a program inside a running session. It reaches sessions through package api only (DialApp), so through the node's
// own connection and the server beside the job; it never connects to a node.
//
//	browser ── Proxy ── api.Server.DialApp ── noded ── session server ── 127.0.0.1:port, of the job's user
//
// With a Domain each app is an origin of its own, 12-0-1-jupyter.DOMAIN. The link that bapp prints has a secret in its query,
// which becomes a cookie of that host at the first visit, and leaves the address. Without one, apps share the origin Shared, and
// the secret stays in the path; what one app's script does there, no browser keeps from the others. Shared is never the
// web page's origin.
//
// What holds:
//
//  1. Only who has an app's secret gets to the app. It is an HMAC of job, element, attempt and app under a key that a restart
//     keeps, compared in constant time, and never logged; nothing tells a wrong secret from a job that is not there.
//  2. A secret is good as long as its attempt runs. When that is over, open connections end, too.
//  3. Nothing reaches an app that is ours: the cookie, headers that a proxy sets, API tokens.
//  4. Nothing of an app reaches past its origin: no cookie for a wider domain or path, none of our names, no way to be
//     framed, and no request of another site but a plain link.
//  5. Where a request may go is what the secret names; no part of a request chooses a host or a port.
package proxy
