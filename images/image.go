package images

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ID numbers an image, from 1; a number is never given twice.
type ID int64

// Image is a SIF file in the catalogue. An Image in a Catalogue is never changed: another takes its place.
type Image struct {
	ID  ID  `json:"id"`
	Ref Ref `json:"ref"`
	// Digest names the file where batchd keeps it.
	Digest      Digest            `json:"digest"`
	Size        int64             `json:"size"` // bytes
	Arch        string            `json:"arch,omitempty"`
	Visibility  Visibility        `json:"visibility"`
	Groups      []Group           `json:"groups,omitempty"` // with ToGroups
	Description string            `json:"description,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"` // of the file; ParseLabels reads them
	Source      string            `json:"source,omitempty"` // where it came from, in words
	Signed      []string          `json:"signed,omitempty"` // trusted keys that had signed all of the file when it was added
	Added       time.Time         `json:"added"`
	By          string            `json:"by"`               // the user who added it
	Removed     time.Time         `json:"removed,omitzero"` // no longer listed: only jobs that have it still need it
}

// Visibility says who may see and use an image.
type Visibility string

// The visibilities. A private image is its owner's alone; of the site's images none is.
const (
	Private  Visibility = "private"
	ToGroups Visibility = "groups"
	Public   Visibility = "public"
)

// ParseVisibility reads one of the three words.
func ParseVisibility(text string) (Visibility, error) {
	switch v := Visibility(text); v {
	case Private, ToGroups, Public:
		return v, nil
	}
	return "", fmt.Errorf("%.100q is no visibility: want private, groups or public", text)
}

// Group is a group of the operating system.
type Group struct {
	Name string `json:"name"`
	GID  int    `json:"gid"`
}

// Viewer is a user who looks for images.
type Viewer struct {
	User string
	GIDs []int // of all groups that he is in
}

// VisibleTo is the rule: the owner, the members of its groups, or everybody. Administrators have no part in it: they may list
// and remove what others have, and use it no more than anybody.
func (i *Image) VisibleTo(v Viewer) bool {
	switch {
	case i.Ref.Owner != "" && i.Ref.Owner == v.User, i.Visibility == Public:
		return true
	case i.Visibility == ToGroups:
		return slices.ContainsFunc(i.Groups, func(g Group) bool { return slices.Contains(v.GIDs, g.GID) })
	}
	return false
}

// Digest is "sha256:" and 64 hexadecimal digits in lower case.
type Digest string

const digestPrefix = "sha256:"

// ParseDigest checks one. The rest of a Digest is safe as a file's name.
func ParseDigest(text string) (Digest, error) {
	rest, ok := strings.CutPrefix(text, digestPrefix)
	if b, err := hex.DecodeString(rest); !ok || err != nil || len(b) != 32 || strings.ToLower(rest) != rest {
		return "", fmt.Errorf("%.100q is no digest: want sha256: and 64 hexadecimal digits", text)
	}
	return Digest(text), nil
}

// DigestOf is the digest with a given SHA-256 sum.
func DigestOf(sum []byte) Digest { return Digest(digestPrefix + hex.EncodeToString(sum)) }

// Hex is the sum alone.
func (d Digest) Hex() string { return strings.TrimPrefix(string(d), digestPrefix) }

// Limits of what users write about images, in bytes.
const (
	MaxDescription = 1000
	MaxGroups      = 50
)

// Check says what is wrong with an image that somebody wants in the catalogue.
func (i *Image) Check() error {
	if r, err := ParseRef(i.Ref.String()); err != nil {
		return err
	} else if r != i.Ref {
		return fmt.Errorf("%q is no image name", i.Ref)
	}
	if _, err := ParseDigest(string(i.Digest)); err != nil {
		return err
	}
	if _, err := ParseVisibility(string(i.Visibility)); err != nil {
		return err
	}
	switch {
	case i.Size <= 0:
		return fmt.Errorf("an image has more than %d bytes", i.Size)
	case len(i.Description) > MaxDescription:
		return fmt.Errorf("the description has %d bytes, and may have %d", len(i.Description), MaxDescription)
	case strings.ContainsFunc(i.Description, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("the description has control characters; it is one line of text")
	case i.Visibility == ToGroups && len(i.Groups) == 0:
		return fmt.Errorf("an image for groups names at least one")
	case i.Visibility != ToGroups && len(i.Groups) > 0:
		return fmt.Errorf("groups are only named for an image whose visibility is %s", ToGroups)
	case len(i.Groups) > MaxGroups:
		return fmt.Errorf("%d groups are named, and may be %d", len(i.Groups), MaxGroups)
	case i.Ref.Owner == "" && i.Visibility == Private:
		return fmt.Errorf("an image of the site has no owner, so it cannot be private: it is public, or for groups")
	}
	return nil
}
