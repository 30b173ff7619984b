// Package pki makes the site's own certificate authority and the batch daemon's server certificate,
// and keeps both fresh. It owns one directory: ca.pem (key and certificate, 0600), server.pem (the
// same), ca.crt (what clients need, 0644). Each is replaced as a whole, so a crash leaves the old or
// the new one, and a key never meets another's certificate.
package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Lives of certificates. A new certificate of the authority has the same key and name, so clients
// that keep the old ca.crt go on until that runs out.
const (
	caLife       = 10 * 365 * 24 * time.Hour
	caRenew      = 2 * 365 * 24 * time.Hour
	serverLife   = 365 * 24 * time.Hour
	serverRenew  = 120 * 24 * time.Hour
	checkEvery   = time.Hour
	backdate     = time.Hour // for nodes whose clocks are behind
	organization = "Fairslice"
)

// Authority serves certificates out of its directory. Its methods may be called at once.
type Authority struct {
	dir   string
	names []string
	now   func() time.Time

	mu      sync.Mutex
	checked time.Time
	server  *tls.Certificate
}

// Open makes what is missing in dir, and renews what is near its end or lacks one of names (host names
// and addresses that clients dial). Damaged files are an error: they are never overwritten.
func Open(dir string, names []string, now func() time.Time) (*Authority, error) {
	if len(names) == 0 {
		return nil, errors.New("pki: no names for the server certificate")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("pki: %w", err)
	}
	a := &Authority{dir: dir, names: names, now: now}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a, a.refresh()
}

// CAFile is the path of the certificate that clients and nodes need (FAIRSLICE_CA).
func (a *Authority) CAFile() string { return filepath.Join(a.dir, "ca.crt") }

// TLS is the server's configuration: TLS 1.3, and a certificate that is renewed while the daemon runs.
func (a *Authority) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.now().Sub(a.checked) > checkEvery {
				if err := a.refresh(); err != nil && a.server == nil {
					return nil, err // with a certificate in hand, an old one is better than none
				}
			}
			return a.server, nil
		},
	}
}

// pair is a key and its certificate.
type pair struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// refresh is Open's work. The caller holds mu.
func (a *Authority) refresh() error {
	now := a.now()
	ca, err := a.load("ca.pem")
	if err != nil {
		return err
	}
	if ca == nil || now.After(ca.cert.NotAfter.Add(-caRenew)) {
		if ca, err = a.makeCA(ca, now); err != nil {
			return err
		}
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
	if have, err := os.ReadFile(a.CAFile()); err != nil || !bytes.Equal(have, public) {
		if err := a.write("ca.crt", public, 0o644); err != nil {
			return err
		}
	}
	server, err := a.load("server.pem")
	if err != nil {
		return err
	}
	if server == nil || now.After(server.cert.NotAfter.Add(-serverRenew)) || server.cert.CheckSignatureFrom(ca.cert) != nil || !a.covers(server.cert) {
		if server, err = a.makeServer(ca, now); err != nil {
			return err
		}
	}
	a.server = &tls.Certificate{Certificate: [][]byte{server.cert.Raw}, PrivateKey: server.key, Leaf: server.cert}
	a.checked = now
	return nil
}

func (a *Authority) covers(c *x509.Certificate) bool {
	return !slices.ContainsFunc(a.names, func(name string) bool { return c.VerifyHostname(name) != nil })
}

// makeCA makes an authority, with old's key if there is one.
func (a *Authority) makeCA(old *pair, now time.Time) (*pair, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{Organization: []string{organization}, CommonName: organization + " CA"}, NotBefore: now.Add(-backdate), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	p := &pair{}
	if old != nil {
		p.key, template.SubjectKeyId = old.key, old.cert.SubjectKeyId
		template.Subject = old.cert.Subject
	}
	return p, a.sign("ca.pem", p, template, nil)
}

func (a *Authority) makeServer(ca *pair, now time.Time) (*pair, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{Organization: []string{organization}, CommonName: a.names[0]}, NotBefore: now.Add(-backdate), NotAfter: now.Add(serverLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range a.names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	p := &pair{}
	return p, a.sign("server.pem", p, template, ca)
}

// sign completes p and stores it. Without ca, p signs itself.
func (a *Authority) sign(file string, p *pair, template *x509.Certificate, ca *pair) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fmt.Errorf("pki: %s: %w", file, err)
	}
	template.SerialNumber = serial
	if p.key == nil {
		if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return fmt.Errorf("pki: %s: %w", file, err)
		}
	}
	parent, key := template, p.key
	if ca != nil {
		parent, key = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &p.key.PublicKey, key)
	if err != nil {
		return fmt.Errorf("pki: %s: %w", file, err)
	}
	if p.cert, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("pki: %s: %w", file, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		return fmt.Errorf("pki: %s: %w", file, err)
	}
	data := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	data = append(data, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	return a.write(file, data, 0o600)
}

// load reads a pair; nil without an error when there is none.
func (a *Authority) load(file string) (*pair, error) {
	path := filepath.Join(a.dir, file)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pki: %w", err)
	}
	c, err := tls.X509KeyPair(data, data)
	if err != nil {
		return nil, fmt.Errorf("pki: %s is damaged (%w): restore it, or remove it to make a new one", path, err)
	}
	key, ok := c.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("pki: %s: the key is no ECDSA key", path)
	}
	return &pair{key, c.Leaf}, nil
}

// write replaces a file as a whole and makes it durable.
func (a *Authority) write(file string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(a.dir, ".new-*") // 0600
	if err != nil {
		return fmt.Errorf("pki: %s: %w", file, err)
	}
	defer os.Remove(f.Name()) // gone already when all went well
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("pki: %s: %w", file, err)
	}
	if err := os.Rename(f.Name(), filepath.Join(a.dir, file)); err != nil {
		return fmt.Errorf("pki: %s: %w", file, err)
	}
	d, err := os.Open(a.dir)
	if err != nil {
		return fmt.Errorf("pki: %s: %w", file, err)
	}
	return errors.Join(d.Sync(), d.Close())
}
