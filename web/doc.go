// Package web is the page that batchd serves: one's sessions and jobs, the dialog that starts them, their terminals, and for
// administrators the GPUs, the requests for images and everybody's jobs. It owns who is logged in, and how things look;
// it decides nothing. What may be seen and done is what the commands may: all goes through the same calls with the same
// Identity, which is asked for anew at each request.
//
// # What protects it
//
//   - A session is a cookie of 256 random bits that only this origin gets (__Host- under TLS), for scripts not to be read, and
//     never sent by a link from elsewhere. What it stands for is kept in memory, under its hash: a restart of batchd logs
//     everybody out. It ends after 12 hours, at a logout, and with the token or the user that it was opened with.
//   - A POST and a terminal come from this page: by Sec-Fetch-Site and Origin, of which one must be there, and a POST brings
//     the session's CSRF token, too. A GET changes nothing.
//   - A request for another host name than the page's is refused, so that no name that somebody makes point here is this origin.
//   - Everything is escaped by html/template; no script or style stands in a page, and the policy that the browser is told allows
//     files of this origin only. The one exception is the terminal's page: xterm.js makes style elements, and gets a nonce for them.
//   - The page never runs what jobs serve: apps have another origin.
//   - Somebody else's job is not found, for who is no administrator.
//
// It remembers nothing but who is logged in, and the last minutes of what those jobs use whose pages somebody looks at (trail.go).
//
// It works without scripts, but for the terminal: scripts only keep it up to date and move sliders.
package web
