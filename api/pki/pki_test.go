package pki

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func serial(t *testing.T, a *Authority) string {
	t.Helper()
	c, err := a.TLS().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf.SerialNumber.String()
}

func trusts(t *testing.T, caFile []byte, a *Authority, name string, now time.Time) error {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(caFile) {
		t.Fatal("ca.crt holds no certificate")
	}
	c, err := a.TLS().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, CurrentTime: now})
	return err
}

func TestCertificatesAreMadeOnceAndRenewedInTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	a, err := Open(dir, []string{"batch.example", "127.0.0.1"}, clock)
	if err != nil {
		t.Fatal(err)
	}
	first := serial(t, a)
	for file, mode := range map[string]os.FileMode{"ca.pem": 0o600, "server.pem": 0o600, "ca.crt": 0o644} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	ca, err := os.ReadFile(a.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"batch.example", "127.0.0.1"} {
		if err := trusts(t, ca, a, name, now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b, err := Open(dir, []string{"batch.example", "127.0.0.1"}, clock); err != nil || serial(t, b) != first {
		t.Errorf("opened again: a new certificate (%v)", err)
	}
	b, err := Open(dir, []string{"batch.example", "other.example"}, clock)
	if err != nil || trusts(t, ca, b, "other.example", now) != nil {
		t.Errorf("a new name is not covered: %v", err)
	}
	second := serial(t, b)
	now = now.Add(serverLife - serverRenew + 2*time.Hour) // while the daemon runs
	if serial(t, b) == second {
		t.Error("a certificate near its end was not renewed")
	}
	now = now.Add(caLife - caRenew)
	if serial(t, b); trusts(t, ca, b, "other.example", now) != nil {
		t.Error("clients with the old ca.crt do not trust a server of the renewed authority")
	}
	if fresh, _ := os.ReadFile(b.CAFile()); string(fresh) == string(ca) {
		t.Error("ca.crt was not renewed")
	}
}

func TestLeftoversOfACrashDoNotHurt(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir, []string{"a.example"}, time.Now); err != nil {
		t.Fatal(err)
	}
	// Killed between two of the files: each missing one is made again, and all fit together.
	for _, missing := range []string{"server.pem", "ca.crt", "ca.pem"} {
		if err := os.Remove(filepath.Join(dir, missing)); err != nil {
			t.Fatal(err)
		}
		a, err := Open(dir, []string{"a.example"}, time.Now)
		if err != nil {
			t.Fatalf("without %s: %v", missing, err)
		}
		ca, _ := os.ReadFile(a.CAFile())
		if err := trusts(t, ca, a, "a.example", time.Now()); err != nil {
			t.Errorf("without %s: %v", missing, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, []string{"a.example"}, time.Now); err == nil {
		t.Error("a damaged key was accepted, or overwritten")
	}
}
