package apps

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// selfMade makes a certificate for this machine as a site without an authority does, and says by what digest of its key a browser
// may trust it.
func selfMade(t *testing.T) (certFile, keyFile string, roots *x509.CertPool, pin string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost", "*.localhost"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots = x509.NewCertPool()
	roots.AddCert(cert)
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), roots, base64.StdEncoding.EncodeToString(sum[:])
}

// The page with a certificate of the site's own: logins, a terminal and an app, all by TLS.
func TestPageOverTLS(t *testing.T) {
	needApps(t)
	certFile, keyFile, roots, pin := selfMade(t)
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	extra := filepath.Join(t.TempDir(), "extra.toml")
	text := fmt.Sprintf("[web]\nlisten = %q\ntls_cert = %q\ntls_key = %q\napps_domain = \"localhost\"\n"+
		"[[app]]\nname = \"files\"\ncommand = [\"python3\", \"-m\", \"http.server\", \"--bind\", \"127.0.0.1\", \"{port}\"]\n", address, certFile, keyFile)
	if err := os.WriteFile(extra, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s := startSite(t, "--extra", extra)

	// What a browser is told, word for word.
	link := s.run("blogin")
	if !strings.HasPrefix(link, "https://"+address+"/login?once=") {
		t.Fatalf("blogin prints %q", link)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Jar: jar, Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(method, to string, form url.Values) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequest(method, to, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", "https://"+address)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer, string(text)
	}
	answer, page := send("GET", link, nil)
	csrf := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(page)
	if answer.TLS == nil || answer.TLS.Version < tls.VersionTLS12 || csrf == nil {
		t.Fatalf("the login: %+v %s", answer, page)
	}
	_, once, _ := strings.Cut(link, "once=")
	login, _ := send("POST", "https://"+address+"/login", url.Values{"csrf": {csrf[1]}, "once": {once}})
	cookies := strings.Join(login.Header.Values("Set-Cookie"), "\n")
	if !regexp.MustCompile(`(?m)^__Host-fairslice=[\w-]{43}; Path=/; HttpOnly; Secure; SameSite=Strict$`).MatchString(cookies) {
		t.Errorf("the session's cookie is %q", cookies)
	}
	for _, one := range append(answer.Header.Values("Set-Cookie"), login.Header.Values("Set-Cookie")...) {
		if !strings.Contains(one, "; Secure") || !strings.Contains(one, "; HttpOnly") {
			t.Errorf("a cookie that can be read on the way or by a script: %q", one)
		}
	}
	jobs, page := send("GET", "https://"+address+"/", nil)
	if jobs.StatusCode != http.StatusOK || jobs.Header.Get("Strict-Transport-Security") != "max-age=31536000" || strings.Contains(page, "http://") {
		t.Errorf("the page: %d %v %s", jobs.StatusCode, jobs.Header, page)
	}
	if plain, text := send("GET", "http://"+address+"/", nil); plain.StatusCode != http.StatusBadRequest || len(plain.Header.Values("Set-Cookie")) > 0 {
		t.Errorf("without TLS: %d %v %s", plain.StatusCode, plain.Header, text)
	}

	// And a browser, which would not send such a cookie, nor open a socket, otherwise.
	b := Start(t, chromedp.Flag("ignore-certificate-errors-spki-list", pin))
	base, _ := s.login(b)
	b.Do("start a session", chromedp.Navigate(base+"/launch"), chromedp.WaitVisible(css("#start")), value("name", "secure"), chromedp.Click(css("#start")),
		chromedp.WaitVisible(css("#live-jobs")), states(1, 0, 0))
	shell := focused + " && (" + screen("# ") + " || " + screen("$ ") + ")" // this machine's, root's or a user's
	b.Do("use its terminal", chromedp.Navigate(base+"/jobs/1/terminal"), poll(shell), typed("echo $((6*7))-answer\r"), poll(screen("42-answer")),
		poll("isSecureContext && location.protocol === 'https:'"))
	b.Do("open an app by a click", chromedp.Navigate(base+"/jobs/1"), chromedp.WaitVisible(css("#app-files")),
		chromedp.Evaluate[chromedp.Void]("document.getElementById('app-files').form.target = ''"), // in this page, where the test looks
		chromedp.Click(css("#app-files")), chromedp.WaitVisible(css("hr + ul")), poll("location.protocol === 'https:' && location.hostname.endsWith('.localhost') && document.title.startsWith('Directory listing')"))
	for _, e := range b.Errors() {
		if !strings.Contains(e, "favicon") {
			t.Errorf("the page has an error: %q", e)
		}
	}
	s.run("bkill", "0")
}
