package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"fairslice/api/wire"
)

// transport is for conversations (HTTP/2, also in clear on a Unix socket) and for all calls over the network.
func (c *Config) transport(socket string) (*http.Transport, error) {
	protocols := new(http.Protocols)
	t := &http.Transport{
		Protocols: protocols, DisableCompression: true, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: time.Minute,
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	if socket != "" {
		protocols.SetUnencryptedHTTP2(true)
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialed(dialer.DialContext(ctx, "unix", socket))
		}
		return t, nil
	}
	protocols.SetHTTP2(true)
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return dialed(dialer.DialContext(ctx, network, addr))
	}
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS13}
	if c.CAFile != "" {
		data, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, wire.Errorf(wire.Invalid, "the batch daemon's CA certificate cannot be read: %v", err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(data) {
			return nil, wire.Errorf(wire.Invalid, "%s holds no certificate: copy ca.crt from the batch host", c.CAFile)
		}
	}
	return t, nil
}

func dialed(conn net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	return conn, nil
}

// authorized adds the token and explains what TLS dislikes, for every call through it.
type authorized struct {
	config *Config
	next   http.RoundTripper
}

func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.config.Token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+a.config.Token)
	}
	res, err := a.next.RoundTrip(r)
	if err != nil {
		return nil, a.config.explain(err)
	}
	return res, nil
}

// explain turns what TLS says into what to do.
func (c *Config) explain(err error) error {
	ca := c.CAFile
	if ca == "" {
		ca = "none (set FAIRSLICE_CA)"
	}
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return wire.Errorf(wire.Denied, "the batch daemon at %s is not the one of your CA certificate %s: copy ca.crt from the batch host again", c.Address, ca)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return wire.Errorf(wire.Denied, "a certificate of the batch daemon at %s has expired, or this machine's clock is wrong: copy ca.crt from the batch host again (now: %s)", c.Address, ca)
	case errors.As(err, &invalid):
		return wire.Errorf(wire.Denied, "the certificate of the batch daemon at %s is not acceptable: %v", c.Address, invalid)
	case errors.As(err, &name):
		return wire.Errorf(wire.Denied, "the batch daemon's certificate is for other names: %v", name)
	case errors.As(err, &record):
		return wire.Errorf(wire.Invalid, "what answers at %s does not speak TLS", c.Address)
	}
	return err
}

// web is the exchange over net/http.
func web(client *http.Client, base string) exchange {
	return func(ctx context.Context, procedure, contentType string, body []byte) (int, io.ReadCloser, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+procedure, bytes.NewReader(body))
		if err != nil {
			return 0, nil, wire.Errorf(wire.Invalid, "%v", err)
		}
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Connect-Protocol-Version", "1")
		res, err := client.Do(r)
		if err != nil {
			return 0, nil, err
		}
		return res.StatusCode, res.Body, nil
	}
}
