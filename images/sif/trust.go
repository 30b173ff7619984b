package sif

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/sylabs/sif/v2/pkg/integrity"
	"github.com/sylabs/sif/v2/pkg/sif"
)

// Trust is what the signatures of a SIF file come to.
type Trust struct {
	// By are the trusted keys of which each has signed every object of the file, as they are now: "Ada <ada@example.org> (8BE1…)" for
	// a PGP key, the name of its file for a PEM key.
	By []string
	// Why says what is missing where no key has: "it is not signed".
	Why string
}

// maxSignatures is how many signatures are looked at: a good one that is in a file often has it read whole as often.
const maxSignatures = 32

// Check holds the signatures of a SIF file against the keys. Nobody is asked over the network. Signatures by other keys do no
// harm; one that is too old for the library to protect the headers (of Singularity before 3.6) does not count.
func (k *Keys) Check(ctx context.Context, path string) (Trust, error) {
	t, err := k.checkFile(ctx, path)
	if err == nil {
		err = context.Cause(ctx) // a read that was stopped may look like a signature that does not hold
	}
	if err != nil {
		return Trust{}, fmt.Errorf("check the signatures of image %s: %w", path, err)
	}
	return t, nil
}

func (k *Keys) checkFile(ctx context.Context, path string) (Trust, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return Trust{}, err
	}
	defer f.Close()
	if _, err := parse(f, size); err != nil { // the library trusts the headers
		return Trust{}, err
	}
	image, err := sif.LoadContainer(stoppable{f, reading{ctx, f}}, sif.OptLoadWithCloseOnUnload(false))
	if err != nil {
		return Trust{}, err
	}
	return k.check(ctx, image), nil
}

// stoppable is a file whose reading stops with a context.
type stoppable struct {
	*os.File
	r reading
}

func (s stoppable) ReadAt(p []byte, off int64) (int, error) { return s.r.ReadAt(p, off) }

func (k *Keys) check(ctx context.Context, image *sif.FileImage) Trust {
	objects, signatures := map[uint32]sif.DataType{}, 0
	image.WithDescriptors(func(d sif.Descriptor) bool {
		if d.DataType() == sif.DataSignature {
			signatures++
		} else {
			objects[d.ID()] = d.DataType()
		}
		return false
	})
	switch {
	case signatures == 0:
		return Trust{Why: "it is not signed"}
	case signatures > maxSignatures:
		return Trust{Why: fmt.Sprintf("it has %d signatures; at most %d are looked at", signatures, maxSignatures)}
	}
	// parse has seen to it that no two objects have one number.
	found := findings{keys: k, signed: map[string]map[uint32]bool{}}
	// found judges each signature; an error is of what has none, such as an object that is in no group.
	err := guarded(func() error {
		v, err := integrity.NewVerifier(image, integrity.OptVerifyWithContext(ctx), integrity.OptVerifyWithKeyRing(k.pgp),
			integrity.OptVerifyWithVerifier(k.pem...), integrity.OptVerifyCallback(found.add))
		if err != nil {
			return err
		}
		return v.Verify()
	})
	return found.trust(objects, err)
}

// findings are what was found of each signature.
type findings struct {
	keys    *Keys
	signed  map[string]map[uint32]bool // good ones: the objects that a key has signed
	broken  []string                   // by trusted keys, of something else
	unknown []string                   // by others
}

// add is called for each signature. That it says true keeps the library from giving up at one that does not count.
func (f *findings) add(r integrity.VerifyResult) bool {
	var names []string
	if e := r.Entity(); e != nil {
		names = append(names, pgpName(e))
	}
	for _, public := range r.Keys() {
		if name := f.keys.pemName(public); name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		f.unknown = append(f.unknown, signerOf(r.Signature()))
	}
	for _, name := range names {
		if err := r.Error(); err != nil {
			f.broken = append(f.broken, fmt.Sprintf("the signature of %s does not hold: %v", name, err))
			continue
		}
		if f.signed[name] == nil {
			f.signed[name] = map[uint32]bool{}
		}
		for _, d := range r.Verified() {
			f.signed[name][d.ID()] = true
		}
	}
	return true
}

// signerOf names a key that is not trusted, by what the file says of it.
func signerOf(d sif.Descriptor) string {
	if _, fingerprint, err := d.SignatureMetadata(); err == nil && len(fingerprint) > 0 {
		return fmt.Sprintf("%X", fingerprint)
	}
	return "a key without a fingerprint"
}

// trust is what the findings come to for all objects of a file.
func (f *findings) trust(objects map[uint32]sif.DataType, failed error) Trust {
	var t Trust
	var partly []string
	for _, name := range slices.Sorted(maps.Keys(f.signed)) {
		missing := ""
		for _, id := range slices.Sorted(maps.Keys(objects)) {
			if !f.signed[name][id] {
				missing = fmt.Sprintf("the signature of %s leaves out object %d (%s)", name, id, objects[id])
				break
			}
		}
		if missing == "" {
			t.By = append(t.By, name)
		} else {
			partly = append(partly, missing)
		}
	}
	var nothing *integrity.SignatureNotFoundError
	switch {
	case len(t.By) > 0 && failed == nil:
		return t
	case len(f.broken) > 0:
		t.Why = f.broken[0]
	case len(partly) > 0:
		t.Why = partly[0]
	case len(f.unknown) > 0:
		t.Why = "it is signed with " + strings.Join(slices.Compact(slices.Sorted(slices.Values(f.unknown))), ", ") + ", and trusted here are other keys"
	case errors.As(failed, &nothing):
		t.Why = "it has no signature of the form that protects its headers: sign it anew"
	default:
		t.Why = fmt.Sprintf("its signatures cannot be used: %v", failed)
	}
	t.By = nil
	return t
}
