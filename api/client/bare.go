package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// exchange sends one request and gives the answer's status and body. An error that wraps errNotSent
// means that the daemon has not seen the request. Body ends with an error unless it came whole.
type exchange func(ctx context.Context, procedure, contentType string, body []byte) (status int, answer io.ReadCloser, err error)

var errNotSent = errors.New("not sent")

// maxLine bounds a line of an HTTP head or of a chunk's.
const maxLine = 16 << 10

// bare is an exchange over a Unix socket: one connection, one HTTP/1.1 request, no http.Client. It
// understands what Go's server answers, nothing more.
func bare(socket string) exchange {
	return func(ctx context.Context, procedure, contentType string, body []byte) (int, io.ReadCloser, error) {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "unix", socket)
		if err != nil {
			return 0, nil, fmt.Errorf("%w: %w", errNotSent, err)
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		head := "POST " + procedure + " HTTP/1.1\r\nHost: batchd\r\nConnection: close\r\nConnect-Protocol-Version: 1\r\nContent-Type: " +
			contentType + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
		// A refusal may come before all is read: what counts is the answer, not this error.
		_, writeErr := conn.Write(append([]byte(head), body...))
		status, answer, err := readHead(bufio.NewReaderSize(conn, maxLine))
		if err != nil {
			stop()
			_ = conn.Close()
			return 0, nil, errors.Join(context.Cause(ctx), writeErr, err)
		}
		return status, &bareBody{answer, func() error { stop(); return conn.Close() }}, nil
	}
}

type bareBody struct {
	io.Reader
	close func() error
}

func (b *bareBody) Close() error { return b.close() }

// readHead reads status line and headers, and gives a reader of the body.
func readHead(r *bufio.Reader) (status int, body io.Reader, err error) {
	line, err := readLine(r)
	if err != nil {
		return 0, nil, err
	}
	version, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	if status, err = strconv.Atoi(code); err != nil || !strings.HasPrefix(version, "HTTP/1.") {
		return 0, nil, fmt.Errorf("no HTTP answer: %.60q", line)
	}
	body = r // to the end of the connection, if no header says otherwise
	for {
		line, err := readLine(r)
		if err != nil {
			return 0, nil, err
		}
		if line == "" {
			return status, body, nil
		}
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); strings.ToLower(name) {
		case "content-length":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				return 0, nil, fmt.Errorf("content length %q", value)
			}
			body = &exactly{r, n}
		case "transfer-encoding":
			body = &chunks{r: r}
		}
	}
}

func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return "", unexpected(err)
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// exactly reads n bytes; fewer are an error.
type exactly struct {
	r io.Reader
	n int64
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	n, err := e.r.Read(p[:min(int64(len(p)), e.n)])
	if e.n -= int64(n); err != nil && e.n > 0 {
		return n, unexpected(err)
	}
	return n, nil
}

// chunks reads chunked transfer encoding; an end without the last chunk is an error.
type chunks struct {
	r    *bufio.Reader
	left exactly
	last bool
	any  bool
}

func (c *chunks) Read(p []byte) (int, error) {
	for c.left.n == 0 {
		if c.last {
			return 0, io.EOF
		}
		if c.any {
			if _, err := readLine(c.r); err != nil { // the line end behind a chunk
				return 0, err
			}
		}
		line, err := readLine(c.r)
		if err != nil {
			return 0, err
		}
		size, _, _ := strings.Cut(line, ";")
		n, err := strconv.ParseInt(strings.TrimSpace(size), 16, 63)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("chunk of size %.20q", line)
		}
		c.left, c.any, c.last = exactly{c.r, n}, true, n == 0
	}
	return c.left.Read(p)
}
