package api

import (
	"context"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"

	"fairslice/api/wire"
	"fairslice/queue"
)

// peer is what is known of a connection before any request.
type peer struct {
	local bool // Unix socket
	uid   int
}

type ctxKey int

const (
	keyPeer ctxKey = iota
	keyControl
	keyAuth
)

// connContext asks the kernel who is at the other end of a Unix socket. A connection that it cannot
// tell of stays without a peer, and every call on it is denied.
func connContext(ctx context.Context, c net.Conn) context.Context {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return ctx
	}
	var cred *syscall.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil || credErr != nil {
		return ctx
	}
	return context.WithValue(ctx, keyPeer, peer{local: true, uid: int(cred.Uid)})
}

// bearer is the token of an Authorization header, or "".
func bearer(h http.Header) string {
	kind, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// user says who calls the Users service.
func (s *Server) user(ctx context.Context) (queue.Identity, error) {
	relax(ctx)
	if p, ok := ctx.Value(keyPeer).(peer); ok && p.local {
		id, err := s.people.byUID(p.uid)
		if err != nil {
			return queue.Identity{}, err
		}
		return s.rights(id), nil
	}
	token, _ := ctx.Value(keyAuth).(string)
	if token == "" {
		return queue.Identity{}, wire.Errorf(Denied, "no token was sent: set FAIRSLICE_TOKEN, or keep one in ~/.config/fairslice/token")
	}
	return s.Bearer(token)
}

// node says whether the caller may speak as a node, and as which: "" is any.
func (s *Server) node(ctx context.Context) (name string, err error) {
	if p, ok := ctx.Value(keyPeer).(peer); ok && p.local {
		if p.uid == 0 || p.uid == os.Geteuid() {
			return "", nil
		}
		return "", wire.Errorf(Denied, "only root and the batch daemon's user may be a node on this socket")
	}
	token, _ := ctx.Value(keyAuth).(string)
	id, kind, ok := s.tokens.Lookup(token)
	switch {
	case token == "" || !ok:
		return "", wire.Errorf(Denied, "a node needs a join token, and this one is missing, not known or expired")
	case kind != NodeToken:
		return "", wire.Errorf(Denied, "this is a user's token: a node needs a join token")
	}
	return id.User, nil
}

// rights decides Admin anew at each call, so that a changed list holds at once.
func (s *Server) rights(id queue.Identity) queue.Identity {
	id.Admin = id.UID == 0 || id.UID == os.Geteuid() || slices.Contains(s.cfg.Admins, id.User)
	return id
}
