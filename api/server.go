package api

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"fairslice/api/pb/pbconnect"
	"fairslice/api/wire"
)

// Config is what a site may set; the zero value serves.
type Config struct {
	Admins []string         // users who may act on others' jobs, beside root and the daemon's own user
	Now    func() time.Time // nil: time.Now
	Apps   AppSite          // nil: no apps
	Web    string           // address of the web page, as in https://batch.example.org, without a slash; "" for none
}

// Bounds of what a caller can make the server hold or wait for.
const (
	maxSubmit     = 32 << 20 // script and environment
	maxMessage    = 4 << 20  // any other
	maxHeader     = 64 << 10
	headerTimeout = 10 * time.Second
	bodyTimeout   = time.Minute // for a request to arrive whole; streams have none
	idleTimeout   = 5 * time.Minute
	pingAfter     = 30 * time.Second // of silence on an HTTP/2 connection
	pingTimeout   = 15 * time.Second
	// What a stream's reader has not taken is held here. A stream that nobody reads must not use up the connection of the others.
	streamWindow     = 256 << 10
	connectionWindow = 128 << 20
)

// Server serves both services. Make it with New, give it listeners with Serve and ServeTLS (each in a
// goroutine of the caller's), end it with Stop.
type Server struct {
	cfg    Config
	engine Engine
	hub    *Hub
	tokens Tokens
	people *people
	logins logins
	log    *slog.Logger
	http   *http.Server

	stopping chan struct{} // closed by Stop: streams end
	stopOnce sync.Once
}

// New wires a server; hub becomes usable with it, and must not be given to another.
func New(cfg Config, engine Engine, hub *Hub, tokens Tokens, log *slog.Logger) *Server {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Server{
		cfg: cfg, engine: engine, hub: hub, tokens: tokens, people: newPeople(cfg.Now),
		log: log.With("service", "api"), stopping: make(chan struct{}),
	}
	hub.members, hub.stopping, hub.allowed = engine, s.stopping, s.node
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s.http = &http.Server{
		Handler: s.Handler(), Protocols: protocols, ConnContext: connContext,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, MaxConcurrentStreams: 1000,
			MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connectionWindow},
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // what clients do wrong is not the site's business
	}
	return s
}

// Handler is the services without a listener. Only connections that http.Server gave ConnContext's
// word about have peer credentials, so through a foreign server callers need tokens.
func (s *Server) Handler() http.Handler {
	options := []connect.HandlerOption{
		connect.WithInterceptors(&translate{log: s.log}),
		connect.WithRecover(s.recovered),
		connect.WithReadMaxBytes(maxSubmit),
		connect.WithCompressMinBytes(math.MaxInt), // the answers are small, or go to the same machine: time is dearer than bytes
	}
	mux := http.NewServeMux()
	mux.Handle(pbconnect.NewUsersHandler(&users{s}, options...))
	mux.Handle(pbconnect.NewNodesHandler(nodeService{s.hub}, options...))
	mux.Handle(pbconnect.NewImagesHandler(imageService{s}, options...))
	return admit(mux)
}

// Serve answers on l, a Unix socket, until Stop. Nil after Stop.
func (s *Server) Serve(l net.Listener) error { return served(s.http.Serve(l)) }

// ServeTLS answers on l, a TCP socket, until Stop. tls gives the certificate; see package pki.
func (s *Server) ServeTLS(l net.Listener, config *tls.Config) error {
	config = config.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	return served(s.http.Serve(tls.NewListener(l, config)))
}

func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Stop ends streams at once, lets other calls finish until ctx ends, and closes all connections.
// It may be called twice, and before Serve.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() { close(s.stopping) })
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.hub.wait()
	return err
}

// streaming is for the calls that last: its ctx ends with the server, too, and its end wakes whoever
// waits for the client to read or write. done must be called before the handler returns.
func (s *Server) streaming(ctx context.Context) (lasting context.Context, done func()) {
	lasting, cancel := until(ctx, s.stopping)
	woken := make(chan struct{})
	stop := context.AfterFunc(lasting, func() {
		defer close(woken)
		if control, ok := ctx.Value(keyControl).(*http.ResponseController); ok {
			_ = control.SetReadDeadline(time.Unix(1, 0)) // fails only when the connection is gone
			_ = control.SetWriteDeadline(time.Now().Add(time.Second))
		}
	})
	return lasting, func() {
		if !stop() { // the stream must not be touched after the handler has returned
			<-woken
		}
		cancel()
	}
}

// wakeReader ends what waits for the client's next message, before the handler of a call returns. It fails only when the connection is gone.
func wakeReader(ctx context.Context) {
	if control, ok := ctx.Value(keyControl).(*http.ResponseController); ok {
		_ = control.SetReadDeadline(time.Unix(1, 0))
	}
}

// until is ctx that ends with stop, too.
func until(ctx context.Context, stop <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		select {
		case <-stop:
			cancel(errStopping)
		case <-done:
		}
	}()
	var once sync.Once
	return ctx, func() { once.Do(func() { close(done) }); cancel(nil) }
}

var errStopping = wire.Errorf(Unavailable, "the batch daemon is stopping")

// bidi are the calls whose body is a conversation, or a file: no deadline, no size.
var bidi = map[string]bool{
	pbconnect.NodesConnectProcedure: true, pbconnect.NodesPipeProcedure: true, pbconnect.UsersAttachProcedure: true, pbconnect.UsersRestoreProcedure: true, pbconnect.UsersExecProcedure: true,
	pbconnect.ImagesUploadImageProcedure: true,
}

// admit bounds a request before anything reads it, and keeps for the handlers what Connect hides: the
// control of the connection's deadlines, and the token.
func admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if !bidi[r.URL.Path] {
			size := int64(maxMessage)
			if r.URL.Path == pbconnect.UsersSubmitProcedure {
				size = maxSubmit
			}
			r.Body = http.MaxBytesReader(w, r.Body, size)
			_ = control.SetReadDeadline(time.Now().Add(bodyTimeout)) // relax takes it back; not supported only under test recorders
		}
		ctx := context.WithValue(r.Context(), keyControl, control)
		if token := bearer(r.Header); token != "" {
			ctx = context.WithValue(ctx, keyAuth, token)
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// relax takes admit's deadline back once the request is here: on HTTP/1.1 it would end the answer, too.
func relax(ctx context.Context) {
	if control, ok := ctx.Value(keyControl).(*http.ResponseController); ok {
		_ = control.SetReadDeadline(time.Time{})
	}
}
