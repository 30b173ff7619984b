package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net/url"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"fairslice/api/pb"
	"fairslice/api/wire"
	"fairslice/queue"
)

// A login link is good once, and for so long. Of one user's only the newest few are: whoever asks for more has lost the others.
const (
	loginLife  = 2 * time.Minute
	loginsEach = 5
)

// logins are the links that nobody has used yet, in memory only: a restart makes them worthless. Codes have 130 random bits
// and are kept as their hashes, so that to look one up tells nothing of the others.
type logins struct {
	mu   sync.Mutex
	open map[[sha256.Size]byte]login
}

type login struct {
	uid   int
	until time.Time
}

// create makes a code for a user and drops what is over.
func (l *logins) create(uid int, now time.Time) (code string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[[sha256.Size]byte]login{}
	}
	var own [][sha256.Size]byte
	for hash, o := range l.open {
		if !now.Before(o.until) {
			delete(l.open, hash)
		} else if o.uid == uid {
			own = append(own, hash)
		}
	}
	slices.SortFunc(own, func(a, b [sha256.Size]byte) int { return l.open[a].until.Compare(l.open[b].until) })
	for len(own) >= loginsEach {
		delete(l.open, own[0])
		own = own[1:]
	}
	code = rand.Text()
	l.open[sha256.Sum256([]byte(code))] = login{uid, now.Add(loginLife)}
	return code
}

// redeem uses a code up.
func (l *logins) redeem(code string, now time.Time) (uid int, ok bool) {
	hash := sha256.Sum256([]byte(code))
	l.mu.Lock()
	defer l.mu.Unlock()
	o, ok := l.open[hash]
	delete(l.open, hash)
	return o.uid, ok && now.Before(o.until)
}

// Login gives the caller a link to the web page that logs in whoever opens it, once.
func (u *users) Login(ctx context.Context, _ *connect.Request[pb.LoginRequest]) (*connect.Response[pb.LoginResponse], error) {
	by, err := u.user(ctx)
	if err != nil {
		return nil, err
	}
	if u.cfg.Web == "" {
		return nil, wire.Errorf(Conflict, "this cluster has no web page: [web] listen in fairslice.toml switches it on")
	}
	code := u.logins.create(by.UID, u.cfg.Now())
	u.log.InfoContext(ctx, "login link made", "user", by.User)
	return answer(&pb.LoginResponse{Url: u.cfg.Web + "/login?once=" + url.QueryEscape(code), Valid: int64(loginLife)}, nil)
}

// Redeem says whose a login link's code is. It is used up, and good for nothing from then on.
func (s *Server) Redeem(code string) (uid int, err error) {
	uid, ok := s.logins.redeem(code, s.cfg.Now())
	if !ok {
		return 0, wire.Errorf(Denied, "the link has been used, or is older than %d minutes: blogin makes another", int(loginLife/time.Minute))
	}
	return uid, nil
}

// Person is a user by number, with the rights of this moment.
func (s *Server) Person(uid int) (queue.Identity, error) {
	id, err := s.people.byUID(uid)
	if err != nil {
		return queue.Identity{}, err
	}
	return s.rights(id), nil
}

// Bearer is the user whose token this is, with the rights of this moment.
func (s *Server) Bearer(token string) (queue.Identity, error) {
	id, kind, ok := s.tokens.Lookup(token)
	switch {
	case token == "" || !ok:
		return queue.Identity{}, wire.Errorf(Denied, "the token is not known or has expired: ask an administrator for a new one")
	case kind != UserToken:
		return queue.Identity{}, wire.Errorf(Denied, "this is a node's token: commands need a user's")
	}
	if id.Home == "" { // the token names a user, the machine knows the rest
		full, err := s.people.byName(id.User)
		if err != nil {
			return queue.Identity{}, err
		}
		id = full
	}
	return s.rights(id), nil
}
