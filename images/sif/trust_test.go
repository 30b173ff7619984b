package sif

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sylabs/sif/v2/pkg/integrity"
	"github.com/sylabs/sif/v2/pkg/sif"
)

// pgpKey makes a key pair.
func pgpKey(t testing.TB, name string) *openpgp.Entity {
	t.Helper()
	e, err := openpgp.NewEntity(name, "", strings.ToLower(name)+"@example.org", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// armored is the public half, or with private both, as files have it.
func armored(t testing.TB, e *openpgp.Entity, private bool) []byte {
	t.Helper()
	var b bytes.Buffer
	kind, serialize := openpgp.PublicKeyType, e.Serialize
	if private {
		kind = openpgp.PrivateKeyType
	}
	w, err := armor.Encode(&b, kind, nil)
	if err != nil {
		t.Fatal(err)
	}
	if private {
		err = e.SerializePrivate(w, nil)
	} else {
		err = serialize(w)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pemKey makes a key pair as openssl does.
func pemKey(t testing.TB) (signer signature.Signer, public []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if signer, err = signature.LoadSigner(key, crypto.SHA256); err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return signer, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// keysOf are the keys of a directory with these files.
func keysOf(t testing.TB, files ...[]byte) *Keys {
	t.Helper()
	dir := t.TempDir()
	for i, data := range files {
		write(t, dir, string(rune('a'+i))+".key", data)
	}
	k, err := ReadKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// edit changes a copy of a SIF file with the library, and gives the copy.
func edit(t *testing.T, image string, change func(f *sif.FileImage) error) string {
	t.Helper()
	data, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	out := write(t, t.TempDir(), "copy.sif", data)
	f, err := sif.LoadContainerFromPath(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(change(f), f.UnloadContainer()); err != nil {
		t.Fatal(err)
	}
	return out
}

func signed(t *testing.T, image string, o ...integrity.SignerOpt) string {
	t.Helper()
	return edit(t, image, func(f *sif.FileImage) error {
		s, err := integrity.NewSigner(f, o...)
		if err != nil {
			return err
		}
		return s.Sign()
	})
}

// with adds an object to a copy.
func with(t *testing.T, image string, o ...sif.DescriptorInputOpt) string {
	t.Helper()
	return edit(t, image, func(f *sif.FileImage) error {
		d, err := sif.NewDescriptorInput(sif.DataGeneric, strings.NewReader("more"), o...)
		if err != nil {
			return err
		}
		return f.AddObject(d)
	})
}

// poked is a copy in which some bytes are others.
func poked(t *testing.T, image string, at func(data []byte) int, with string) string {
	t.Helper()
	data, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	copy(data[at(data):], with)
	return write(t, t.TempDir(), "poked.sif", data)
}

func TestTrust(t *testing.T) {
	_, image, err := convertTar(t, packTar(t, busyboxFiles(t)...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	ada, eve := pgpKey(t, "Ada"), pgpKey(t, "Eve")
	pemSigner, public := pemKey(t)
	otherPEM, _ := pemKey(t)
	both := keysOf(t, armored(t, ada, false), public)
	onlyPGP := keysOf(t, armored(t, ada, false))
	byAda, byPEM := integrity.OptSignWithEntity(ada), integrity.OptSignWithSigner(pemSigner)
	byEve := integrity.OptSignWithEntity(eve)
	c, file := parts(t, image)
	file.Close()
	root := func([]byte) int { return int(c.root.Offset() + c.root.Size() - 200) }
	adas := pgpName(ada)
	for _, row := range []struct {
		what  string
		image string
		keys  *Keys
		by    []string
		why   string
	}{
		{"no signature", image, both, nil, "it is not signed"},
		{"a trusted PGP key", signed(t, image, byAda), both, []string{adas}, ""},
		{"a trusted PEM key", signed(t, image, byPEM), both, []string{"b.key"}, ""},
		{"two", signed(t, signed(t, image, byAda), byPEM), both, []string{adas, "b.key"}, ""},
		{"an unknown key beside it, before", signed(t, signed(t, image, byEve), byAda), both, []string{adas}, ""},
		{"an unknown PEM key before it", signed(t, signed(t, image, integrity.OptSignWithSigner(otherPEM)), byAda), onlyPGP, []string{adas}, ""},
		{"an unknown PGP key", signed(t, image, byEve), both, nil, "it is signed with " + strings.ToUpper(hexOf(eve)) + ", and trusted here are other keys"},
		{"an unknown PEM key", signed(t, image, integrity.OptSignWithSigner(otherPEM)), both, nil, "it is signed with a key without a fingerprint"},
		{"changed since", poked(t, signed(t, image, byAda), root, "changed"), both, nil, "the signature of " + adas + " does not hold: data object integrity compromised: 2"},
		{"changed since, PEM", poked(t, signed(t, image, byPEM), root, "changed"), both, nil, "the signature of b.key does not hold: data object integrity compromised: 2"},
		{"another launch script", poked(t, signed(t, image, byAda), func([]byte) int { return 0 }, "#!/bin/evil"), both, nil, "does not hold: header integrity"},
		{"one object only", signed(t, image, byAda, integrity.OptSignObjects(c.root.ID())), both, nil, "the signature of " + adas + " does not hold: object 1: object not signed"},
		{"each object, by signatures of their own", signed(t, signed(t, image, byAda, integrity.OptSignObjects(1)), byAda, integrity.OptSignObjects(2)), both, nil, "object not signed"},
		{"one group of two", signed(t, with(t, image, sif.OptGroupID(2)), byAda, integrity.OptSignGroup(1)), both, nil, "the signature of " + adas + " leaves out object 3 (Generic"},
		{"two groups, both signed", signed(t, with(t, image, sif.OptGroupID(2)), byAda), both, []string{adas}, ""},
		{"an object in no group", with(t, signed(t, image, byAda), sif.OptNoGroup()), both, nil, "its signatures cannot be used: integrity: non-signature object not associated"},
		{"an object added since", with(t, signed(t, image, byAda)), both, nil, "does not hold: object 4: object not signed"},
		{"a group added since, signed by a stranger", signed(t, with(t, signed(t, image, byAda), sif.OptGroupID(2)), byEve, integrity.OptSignGroup(2)), both, nil, "leaves out object 4"},
	} {
		got, err := row.keys.Check(t.Context(), row.image)
		if err != nil || !slices.Equal(got.By, row.by) || !strings.Contains(got.Why, row.why) || row.why == "" != (got.Why == "") {
			t.Errorf("%s: %+v, %v; want %q, %q", row.what, got, err, row.by, row.why)
		}
	}

	// The number of a good object, given to another in a group of its own.
	twice := poked(t, signed(t, with(t, signed(t, image, byAda), sif.OptGroupID(2)), byEve, integrity.OptSignGroup(2)),
		func([]byte) int { return 4096 + 3*descriptorSize + 5 }, "\x01")
	if got, err := both.Check(t.Context(), twice); err == nil || !strings.Contains(err.Error(), "two objects have the number 1") {
		t.Errorf("two objects of one number: %+v, %v", got, err)
	}
	many := image
	for range maxSignatures + 1 {
		many = signed(t, many, byEve)
	}
	if got, err := both.Check(t.Context(), many); err != nil || !strings.Contains(got.Why, "33 signatures; at most 32") {
		t.Errorf("many signatures: %+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := both.Check(ctx, signed(t, image, byAda)); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %+v, %v", got, err)
	}
}

func hexOf(e *openpgp.Entity) string {
	name := pgpName(e)
	return strings.TrimSuffix(name[strings.LastIndexByte(name, '(')+1:], ")")
}

// A key that is over signs nothing that counts.
func TestTrustOfAnExpiredKey(t *testing.T) {
	_, image, err := convertTar(t, packTar(t, busyboxFiles(t)...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	then := func() time.Time { return time.Now().Add(-48 * time.Hour) }
	old, err := openpgp.NewEntity("Old", "", "old@example.org", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA, KeyLifetimeSecs: 86400, Time: then})
	if err != nil {
		t.Fatal(err)
	}
	got, err := keysOf(t, armored(t, old, false)).Check(t.Context(), signed(t, image, integrity.OptSignWithEntity(old), integrity.OptSignWithTime(then)))
	if err != nil || len(got.By) > 0 || !strings.Contains(got.Why, "expired") {
		t.Errorf("%+v, %v", got, err)
	}
}

// What Apptainer signs is trusted here, and what is signed here Apptainer verifies.
func TestTrustIsApptainers(t *testing.T) {
	_, plain, err := convertTar(t, packTar(t, busyboxFiles(t)...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	image := edit(t, plain, func(*sif.FileImage) error { return nil })
	dir := openDir(t)
	apptainer := func(args ...string) (string, error) {
		cmd := exec.Command("apptainer", args...)
		cmd.Env = []string{"PATH=" + searchPath, "HOME=" + dir, "APPTAINER_KEYSDIR=" + dir}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := apptainer("key", "newpair", "--name=Nan", "--email=a@b.c", "--comment=c", "--password=", "--push=false", "--bit-length=2048"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := apptainer("sign", image); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ring, err := os.ReadFile(filepath.Join(dir, "pgp-public")) // a key ring, not armored
	if err != nil {
		t.Fatal(err)
	}
	got, err := keysOf(t, ring).Check(t.Context(), image)
	if err != nil || len(got.By) != 1 || !strings.HasPrefix(got.By[0], "Nan (c) <a@b.c> (") {
		t.Errorf("signed by Apptainer: %+v, %v", got, err)
	}
	info, err := Inspect(t.Context(), image)
	if err != nil || len(info.Signatures) != 1 || !strings.Contains(got.By[0], info.Signatures[0]) {
		t.Errorf("%q, %v", info.Signatures, err)
	}
	signer, public := pemKey(t)
	ours := signed(t, plain, integrity.OptSignWithSigner(signer))
	if out, err := apptainer("verify", "--key", write(t, dir, "public.pem", public), ours); err != nil {
		t.Errorf("Apptainer does not verify it: %v: %s", err, out)
	}
}

func TestReadKeys(t *testing.T) {
	ada := pgpKey(t, "Ada")
	_, public := pemKey(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	var ring bytes.Buffer
	if err := ada.SerializePrivate(&ring, nil); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		what string
		data []byte
		want string
	}{
		{"nothing", nil, "no public keys of PGP, nor a PEM key: it is empty"},
		{"a text", []byte("hello"), "no public keys of PGP, nor a PEM key"},
		{"half an armored key", armored(t, ada, false)[:200], "no public keys of PGP"},
		{"a private PGP key", armored(t, ada, true), "a private key"},
		{"a private key ring", ring.Bytes(), "a private key"},
		{"a private PEM key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), "a private key"},
		{"a certificate", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), `a PEM file with "CERTIFICATE"`},
		{"two PEM keys", slices.Concat(public, public), "one PUBLIC KEY and nothing else"},
		{"a PEM key that is none", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}), "a PEM key that cannot be read"},
		{"a large file", make([]byte, maxKeyFile+1), "more than"},
	} {
		dir := t.TempDir()
		write(t, dir, "x.key", row.data)
		if _, err := ReadKeys(dir); err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), "x.key") {
			t.Errorf("%s: %v; want %q", row.what, err, row.want)
		}
	}
	dir := t.TempDir()
	write(t, dir, ".hidden", []byte("hello"))
	if _, err := ReadKeys(dir); err == nil || !strings.Contains(err.Error(), "there is no key in") {
		t.Errorf("an empty directory: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKeys(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory in it: %v", err)
	}
	if _, err := ReadKeys(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// cutSignature is a PGP packet on which the library panics, and cutKey a key with it. The fuzz tests have found them.
const cutSignature = "\xc20\x040\x16\b\x00\x06\x01\x840000"

var cutKey = []byte("\xc67\x040000\x16\t+\x06\x01\x04\x01\xdaG\x0f\x01\x01\a@00000000000000000000000000000000\xcd\x15000000000000000000000" + cutSignature)

// clearSigned is a text as 'apptainer sign' puts it into a file, with other packets for a signature.
func clearSigned(t testing.TB, text, packets string) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n" + text + "\n")
	w, err := armor.Encode(&b, openpgp.SignatureType, nil)
	if err == nil {
		_, err = io.WriteString(w, packets)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// withSignature is a SIF file with something for a signature of all its objects, which are others than those of fake.
func withSignature(t testing.TB, data []byte) *sif.FileImage {
	t.Helper()
	f, err := sif.LoadContainer(sif.NewBuffer(bytes.Replace(fake(t), []byte(`"b"`), []byte(`"c"`), 1)))
	if err != nil {
		t.Fatal(err)
	}
	d, err := sif.NewDescriptorInput(sif.DataSignature, bytes.NewReader(data), sif.OptNoGroup(), sif.OptLinkedGroupID(sif.DefaultObjectGroup),
		sif.OptSignatureMetadata(crypto.SHA256, make([]byte, 20)))
	if err == nil {
		err = f.AddObject(d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A signature that the library cannot bear is none, and does no harm.
func TestTrustOfAMalformedSignature(t *testing.T) {
	k := keysOf(t, armored(t, pgpKey(t, "Ada"), false))
	got := k.check(t.Context(), withSignature(t, clearSigned(t, "{}", cutSignature)))
	if len(got.By) > 0 || !strings.Contains(got.Why, "malformed in a way that the library does not foresee") {
		t.Errorf("%+v", got)
	}
}

// Whatever is in a file for a signature, and be it a good one of another file: it is by nobody, and ends nothing.
func FuzzSignature(f *testing.F) {
	ada := pgpKey(f, "Ada")
	signer, public := pemKey(f)
	k := keysOf(f, armored(f, ada, false), public)
	for _, opt := range []integrity.SignerOpt{integrity.OptSignWithEntity(ada), integrity.OptSignWithSigner(signer)} {
		image, err := sif.LoadContainer(sif.NewBuffer(fake(f)))
		if err != nil {
			f.Fatal(err)
		}
		s, err := integrity.NewSigner(image, opt)
		if err == nil {
			err = s.Sign()
		}
		if err != nil {
			f.Fatal(err)
		}
		d, err := image.GetDescriptor(sif.WithDataType(sif.DataSignature))
		if err != nil {
			f.Fatal(err)
		}
		data, err := d.GetData()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, false)
		if block, _ := clearsign.Decode(data); block != nil {
			packets, err := io.ReadAll(block.ArmoredSignature.Body)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(packets, true)
		}
	}
	f.Add([]byte(cutSignature), true)
	f.Fuzz(func(t *testing.T, data []byte, packets bool) {
		if packets {
			data = clearSigned(t, "{}", string(data))
		}
		got := k.check(t.Context(), withSignature(t, data))
		if len(got.By) > 0 || got.Why == "" {
			t.Errorf("%+v", got)
		}
	})
}

// Whatever is in a file of keys: keys that can be used, or an error.
func FuzzKeys(f *testing.F) {
	ada := pgpKey(f, "Ada")
	_, public := pemKey(f)
	var ring bytes.Buffer
	if err := ada.Serialize(&ring); err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{armored(f, ada, false), armored(f, ada, true), ring.Bytes(), public, []byte("x"), cutKey} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		k := &Keys{files: map[string]string{}}
		if err := k.add("file", data); err != nil {
			return
		}
		if len(k.pgp)+len(k.pem) == 0 {
			t.Error("neither keys nor an error")
		}
		for _, e := range k.pgp {
			if name := pgpName(e); e.PrivateKey != nil || name == "" || strings.ContainsAny(name, "\n\x1b") {
				t.Errorf("%q", name)
			}
		}
		for _, v := range k.pem {
			if key, err := v.PublicKey(); err != nil || k.pemName(key) != "file" {
				t.Errorf("%v", err)
			}
		}
	})
}
