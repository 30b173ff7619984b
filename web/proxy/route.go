package proxy

import (
	"context"
	"net"
	"net/http"
	"time"

	"fairslice/api"
	"fairslice/api/wire"
	"fairslice/images"
)

// route is the way to one app. It ends with the attempt, or when nobody has used it for a while; then the next request makes
// another.
type route struct {
	at        api.AppPlace
	state     images.AppState
	transport *http.Transport
	ctx       context.Context
	cancel    context.CancelFunc

	users int       // guarded by Proxy.mu, as the next
	used  time.Time // when the last user left
	p     *Proxy
}

// route finds the way to an app. leave must be called.
func (p *Proxy) route(ctx context.Context, at api.AppPlace) (*route, error) {
	if rt := p.known(at); rt != nil {
		return rt, nil
	}
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	state, err := p.sessions.FindApp(ctx, at)
	if err != nil {
		return nil, err
	}
	if state.Proto != images.HTTP && state.Proto != images.Preopen {
		return nil, wire.Errorf(wire.Conflict, "%s is no app for browsers: its protocol is %s", at.Name, state.Proto)
	}
	rt := &route{at: at, state: state, p: p, users: 1}
	rt.ctx, rt.cancel = context.WithCancel(p.ctx)
	rt.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			return p.sessions.DialApp(ctx, at, state.Port)
		},
		MaxIdleConnsPerHost: 16, IdleConnTimeout: idleTimeout, ResponseHeaderTimeout: answerTimeout,
		DisableCompression:     true, // what the app sends is what the browser gets
		MaxResponseHeaderBytes: 1 << 20,
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		rt.cancel()
		return nil, wire.Errorf(wire.Unavailable, "the batch daemon is stopping")
	}
	if other := p.routes[at]; other != nil {
		rt.cancel()
		other.users++
		return other, nil
	}
	p.routes[at] = rt
	p.alive.Go(rt.watch)
	return rt, nil
}

func (p *Proxy) known(at api.AppPlace) *route {
	p.mu.Lock()
	defer p.mu.Unlock()
	rt := p.routes[at]
	if rt != nil {
		rt.users++
	}
	return rt
}

func (rt *route) leave() {
	rt.p.mu.Lock()
	defer rt.p.mu.Unlock()
	rt.users--
	rt.used = time.Now()
}

// watch ends the route with the attempt.
func (rt *route) watch() {
	changed, cancel := rt.p.sessions.AppSubscribe(rt.at)
	defer cancel()
	tick := time.NewTicker(routeTimeout)
	defer tick.Stop()
	for rt.p.sessions.AppAlive(rt.at) && rt.wanted() {
		select {
		case <-changed:
		case <-tick.C:
		case <-rt.ctx.Done():
			rt.end()
			return
		}
	}
	rt.end()
}

// wanted says that the route is used, or was of late; else it is taken off, so that nobody finds it any more.
func (rt *route) wanted() bool {
	rt.p.mu.Lock()
	defer rt.p.mu.Unlock()
	if rt.users > 0 || time.Since(rt.used) < routeTimeout {
		return true
	}
	rt.drop()
	return false
}

// drop takes the route off. Proxy.mu is held.
func (rt *route) drop() {
	if rt.p.routes[rt.at] == rt {
		delete(rt.p.routes, rt.at)
	}
}

func (rt *route) end() {
	rt.p.mu.Lock()
	rt.drop()
	rt.p.mu.Unlock()
	rt.cancel()
	rt.transport.CloseIdleConnections()
}

// stale takes the route off because the app has gone from where it was: the next request looks for it again.
func (rt *route) stale() {
	rt.p.mu.Lock()
	defer rt.p.mu.Unlock()
	rt.drop()
}
