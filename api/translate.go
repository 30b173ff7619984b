package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"connectrpc.com/connect"

	"fairslice/api/wire"
)

// translate is the interceptor that turns errors into what users may see, and logs the rest.
type translate struct{ log *slog.Logger }

func (t *translate) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, req)
		return res, t.visible(ctx, req.Spec().Procedure, err)
	}
}

func (t *translate) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return t.visible(ctx, conn.Spec().Procedure, next(ctx, conn))
	}
}

func (t *translate) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// visible makes the Connect error for err; nil stays nil.
func (t *translate) visible(ctx context.Context, procedure string, err error) error {
	if err == nil {
		return nil
	}
	var connectErr *connect.Error
	if errors.As(err, &connectErr) { // its own machinery: a message too large, not protobuf, …
		return err
	}
	e, known := wire.AsError(err)
	if !known {
		t.log.ErrorContext(ctx, "call failed", "procedure", procedure, "error", err)
	}
	var code connect.Code
	if err := code.UnmarshalText([]byte(e.Code.Connect())); err != nil {
		code = connect.CodeInternal
	}
	return connect.NewError(code, errors.New(e.Msg))
}

// recovered turns a panic of a handler, which is a bug, into an answer: one call fails, not the daemon.
func (s *Server) recovered(ctx context.Context, spec connect.Spec, _ http.Header, v any) error {
	s.log.ErrorContext(ctx, "call panicked", "procedure", spec.Procedure, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	e, _ := wire.AsError(errors.New("panic"))
	return connect.NewError(connect.CodeInternal, e)
}
