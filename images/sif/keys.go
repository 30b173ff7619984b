package sif

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/sigstore/sigstore/pkg/signature"
)

// Keys are the public keys whose signatures count.
type Keys struct {
	pgp openpgp.EntityList
	pem []signature.Verifier
	// files are the names of the PEM keys' files, by the keys' DER form: such a key says of nobody whose it is.
	files map[string]string
}

// maxKeyFile bounds what is read of one file: a key ring has some KiB a key.
const maxKeyFile = 4 << 20

// ReadKeys reads the files of a directory, each of which has a PGP key or several (as 'apptainer key export' or 'gpg --export'
// writes them, armored or not), or one PEM key (openssl's). Names that begin with a dot are left out. Whatever else is there is
// an error, and so is a directory without a key.
func ReadKeys(dir string) (*Keys, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read trusted keys: %w", err)
	}
	k := &Keys{files: map[string]string{}}
	for _, at := range list {
		if strings.HasPrefix(at.Name(), ".") {
			continue
		}
		if err := k.readFile(dir, at.Name()); err != nil {
			return nil, fmt.Errorf("read trusted keys: %w", err)
		}
	}
	if len(k.pgp)+len(k.pem) == 0 {
		return nil, fmt.Errorf("read trusted keys: there is no key in %s", dir)
	}
	if len(k.pem) == 0 {
		return k, k.addNobody()
	}
	return k, nil
}

func (k *Keys) readFile(dir, name string) error {
	f, _, err := openRegular(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return err
	}
	if err := k.add(name, data); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	return nil
}

// add reads the keys of one file.
func (k *Keys) add(name string, data []byte) error {
	if len(data) > maxKeyFile {
		return fmt.Errorf("more than %d bytes", maxKeyFile)
	}
	block, rest := pem.Decode(data)
	switch {
	case bytes.Contains(data, []byte("PRIVATE KEY")): // of PGP or PEM
		return errPrivate
	case block == nil || strings.HasPrefix(block.Type, "PGP "):
		return k.addPGP(data)
	case block.Type != "PUBLIC KEY" || len(bytes.TrimSpace(rest)) > 0:
		return fmt.Errorf("a PEM file with %.40q; want one PUBLIC KEY and nothing else", block.Type)
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("a PEM key that cannot be read: %w", err)
	}
	return k.addPEM(name, public)
}

var errPrivate = errors.New("a private key; only the public half belongs here, and the private one may be known now to whoever has read it here")

func (k *Keys) addPGP(data []byte) error {
	read := openpgp.ReadKeyRing
	if bytes.Contains(data, []byte("-----BEGIN PGP")) {
		read = openpgp.ReadArmoredKeyRing
	}
	var list openpgp.EntityList
	err := guarded(func() (err error) {
		list, err = read(bytes.NewReader(data))
		return err
	})
	if err == nil && len(list) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return fmt.Errorf("no public keys of PGP, nor a PEM key: %w", err)
	}
	for _, e := range list {
		if e.PrivateKey != nil {
			return errPrivate
		}
	}
	k.pgp = append(k.pgp, list...)
	return nil
}

// guarded makes an error of a panic. The library for PGP panics on some packets that are cut (go-crypto 1.4.1, index out of range), and
// anybody may send a file with such a signature; FuzzKeys and FuzzSignature find more of the kind.
func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("malformed in a way that the library does not foresee: %v", v)
		}
	}()
	return f()
}

func (k *Keys) addPEM(name string, public crypto.PublicKey) error {
	verifier, err := signature.LoadVerifier(public, crypto.SHA256)
	if err != nil {
		return fmt.Errorf("a PEM key that cannot verify: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return err
	}
	if name != "" {
		k.files[string(der)] = name
	}
	k.pem = append(k.pem, verifier)
	return nil
}

// addNobody adds a key that nobody can sign with: without any PEM key the library gives up at the first signature by such a key,
// and would not look at a good PGP signature behind it.
func (k *Keys) addNobody() error {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	return k.addPEM("", public)
}

// pemName is the file of a PEM key; "" for one that is not trusted.
func (k *Keys) pemName(public crypto.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return ""
	}
	return k.files[string(der)]
}

// pgpName says whose key it is: "Ada Lovelace <ada@example.org> (8BE1…)".
func pgpName(e *openpgp.Entity) string {
	who := ""
	if id := e.PrimaryIdentity(); id != nil {
		who = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return -1
			}
			return r
		}, strings.ToValidUTF8(id.Name, "?"))
	}
	if len(who) > 100 {
		who = strings.ToValidUTF8(who[:100], "") + "…"
	}
	return strings.TrimSpace(fmt.Sprintf("%s (%X)", who, e.PrimaryKey.Fingerprint))
}
