package depot

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/sylabs/sif/v2/pkg/integrity"
	sylabs "github.com/sylabs/sif/v2/pkg/sif"

	"fairslice/images/sif"
)

// What is put comes with what its signatures are worth, by the keys of that moment; what was made here was not asked.
func TestTrustOfWhatIsAdded(t *testing.T) {
	needsSquashfs(t)
	ada, err := openpgp.NewEntity("Ada", "", "ada@example.org", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	d := open(t, Config{Keys: func() string { return keys }})
	var got []Stored
	put := func(s Stored) error { got = append(got, s); return nil }
	add := func(name string, data []byte) error {
		t.Helper()
		u := upload(t, name)
		if _, err := d.Receive(u, 0, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		return d.Import(t.Context(), u, digest(data), "x", quiet, put)
	}

	// The keys cannot be read: nothing is taken, and what was sent stays for when they can.
	image := signed(t, filepath.Join(dir, "image.sif"), ada)
	if err := add("early", image); !errors.Is(err, ErrKeys) || len(got) > 0 {
		t.Fatalf("without the directory: %v, %d images", err, len(got))
	}
	if err := os.Mkdir(keys, 0o755); err != nil {
		t.Fatal(err)
	}
	var public bytes.Buffer
	if err := ada.Serialize(&public); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(keys, "ada.pgp"), public.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := d.Import(t.Context(), upload(t, "early"), digest(image), "x", quiet, put); err != nil {
		t.Fatal(err)
	}
	if err := add("archive", archive(t, "#!shell")); err != nil {
		t.Fatal(err)
	}
	tampered := slices.Clone(image)
	copy(tampered, "#!/bin/other")
	if err := add("tampered", tampered); err != nil {
		t.Fatal(err)
	}
	by := func(s Stored) bool {
		return len(s.Trust.By) == 1 && strings.HasPrefix(s.Trust.By[0], "Ada <ada@example.org>")
	}
	switch {
	case len(got) != 3:
		t.Fatalf("%d images", len(got))
	case got[0].Made || !by(got[0]):
		t.Errorf("a signed file: %+v", got[0])
	case !got[1].Made || len(got[1].Trust.By) > 0:
		t.Errorf("an archive: %+v", got[1])
	case got[2].Made || len(got[2].Trust.By) > 0 || !strings.Contains(got[2].Trust.Why, "does not hold"):
		t.Errorf("one that was changed: %+v", got[2])
	}

	// The keys of today judge what is there.
	if s, err := d.Verify(t.Context(), got[0].Digest); err != nil || !by(s) {
		t.Errorf("%+v, %v", s, err)
	}
	keys = ""
	if s, err := d.Verify(t.Context(), got[0].Digest); err != nil || len(s.Trust.By) > 0 || s.Trust.Why != "the site trusts no keys" {
		t.Errorf("%+v, %v", s, err)
	}
}

// signed makes a SIF file that a key has signed.
func signed(t *testing.T, name string, by *openpgp.Entity) []byte {
	t.Helper()
	src := name + ".tar"
	if err := os.WriteFile(src, archive(t, "#!signed"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := sif.Convert(t.Context(), src, name, sif.Options{}); err != nil {
		t.Fatal(err)
	}
	f, err := sylabs.LoadContainerFromPath(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := integrity.NewSigner(f, integrity.OptSignWithEntity(by))
	if err == nil {
		err = s.Sign()
	}
	if err = errors.Join(err, f.UnloadContainer()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
