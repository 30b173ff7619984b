package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"

	"fairslice/api/wire"
)

// maxAnswer bounds one message from the daemon.
const maxAnswer = 256 << 20

// failure is Connect's error, as JSON.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (f failure) err() error { return &wire.Error{Code: wire.CodeOf(f.Code), Msg: f.Message} }

// unary makes one call of Connect's protocol.
func (x exchange) unary(ctx context.Context, procedure string, req, res proto.Message) error {
	body, err := proto.Marshal(req)
	if err != nil {
		return wire.Errorf(wire.Invalid, "%v", err)
	}
	status, answer, err := x(ctx, procedure, "application/proto", body)
	if err != nil {
		return err
	}
	defer answer.Close()
	data, err := io.ReadAll(io.LimitReader(answer, maxAnswer))
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return refused(status, data)
	}
	return proto.Unmarshal(data, res)
}

func refused(status int, data []byte) error {
	var f failure
	if json.Unmarshal(data, &f) == nil && f.Code != "" {
		return f.err()
	}
	code := wire.Internal
	switch {
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		return wire.Errorf(wire.Invalid, "what answers there is no batch daemon, or one of another version (HTTP status %d)", status)
	case status == http.StatusServiceUnavailable || status == http.StatusBadGateway || status == http.StatusGatewayTimeout:
		code = wire.Unavailable
	case status < http.StatusInternalServerError:
		code = wire.Invalid
	}
	return wire.Errorf(code, "the batch daemon answered with HTTP status %d: %.200s", status, bytes.TrimSpace(data))
}

// Flags of an enveloped message.
const (
	flagCompressed = 1
	flagEnd        = 2
)

// stream calls a server stream: each is given every message, decoded into what next makes.
func (x exchange) stream(ctx context.Context, procedure string, req proto.Message, next func() proto.Message, each func(proto.Message) error) error {
	body, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 5), req)
	if err != nil {
		return wire.Errorf(wire.Invalid, "%v", err)
	}
	binary.BigEndian.PutUint32(body[1:], uint32(len(body)-5))
	status, answer, err := x(ctx, procedure, "application/connect+proto", body)
	if err != nil {
		return err
	}
	defer answer.Close()
	if status != http.StatusOK {
		data, _ := io.ReadAll(io.LimitReader(answer, 4096)) // the status is what counts
		return refused(status, data)
	}
	for {
		var head [5]byte
		if _, err := io.ReadFull(answer, head[:]); err != nil {
			return unexpected(err)
		}
		size := binary.BigEndian.Uint32(head[1:])
		if size > maxAnswer || head[0]&flagCompressed != 0 {
			return fmt.Errorf("message of %d bytes with flags %d", size, head[0])
		}
		data := make([]byte, size)
		if _, err := io.ReadFull(answer, data); err != nil {
			return unexpected(err)
		}
		if head[0]&flagEnd != 0 {
			var end struct {
				Error *failure `json:"error"`
			}
			if err := json.Unmarshal(data, &end); err != nil {
				return err
			}
			if end.Error != nil {
				return end.Error.err()
			}
			return nil
		}
		m := next()
		if err := proto.Unmarshal(data, m); err != nil {
			return err
		}
		if err := each(m); err != nil {
			return &stop{err}
		}
	}
}

// stop carries an error of the caller's own function past the retries.
type stop struct{ err error }

func (s *stop) Error() string { return s.err.Error() }
func (s *stop) Unwrap() error { return s.err }

// again says which failures are worth another try.
type again int

const (
	ifNotSent     again = iota // only when the daemon has not seen the call
	ifUnavailable              // also when it said "not now"
	always                     // also when the connection broke: the call may be done twice
)

// retry calls f until it answers or the tries are used up. Errors are *wire.Error, or the caller's own.
func (c *Config) retry(ctx context.Context, when again, f func() error) error {
	pause := c.Backoff
	for try := 1; ; try++ {
		err := f()
		var own *stop
		var coded *wire.Error
		retriable := false
		switch {
		case err == nil:
			return nil
		case errors.As(err, &own):
			return own.err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &coded):
			retriable = when >= ifUnavailable && coded.Code == wire.Unavailable
		case errors.Is(err, errNotSent):
			retriable = true
			coded = wire.Errorf(wire.Unavailable, "batch system daemon not responding: %s: %v", c.Address, cause(err))
		default:
			retriable = when >= always
			coded = wire.Errorf(wire.Unavailable, "the connection to the batch daemon broke before its answer (%v): look first whether it did what you asked", err)
		}
		if !retriable || try >= c.Tries {
			return coded
		}
		if c.Waiting != nil {
			c.Waiting(stillTrying)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
		pause = min(2*pause, 8*c.Backoff)
	}
}

// cause is the system's word in a failed dial.
func cause(err error) error {
	for next := errors.Unwrap(err); ; next = errors.Unwrap(err) {
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			all := many.Unwrap()
			next = all[len(all)-1]
		}
		if next == nil {
			return err
		}
		err = next
	}
}
