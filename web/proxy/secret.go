package proxy

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"fairslice/api"
	"fairslice/queue"
)

// Key makes secrets. Whoever has it has all of them.
type Key [32]byte

// OpenKey reads the key in a file, and makes both where there is none yet.
func OpenKey(file string) (Key, error) {
	var k Key
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		_, _ = rand.Read(k[:]) // never fails
		return k, writeOnce(file, []byte(hex.EncodeToString(k[:])+"\n"))
	}
	if err != nil {
		return k, fmt.Errorf("key of the apps' links: %w", err)
	}
	if n, err := hex.Decode(k[:], []byte(strings.TrimSpace(string(data)))); err != nil || n != len(k) {
		return k, fmt.Errorf("key of the apps' links: %s is damaged: remove it, and all links made so far are worthless", file)
	}
	return k, nil
}

// writeOnce makes a file whole, or not at all.
func writeOnce(file string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".key-*") // for its owner alone
	if err != nil {
		return fmt.Errorf("key of the apps' links: %w", err)
	}
	defer os.Remove(f.Name()) // not there any more when all went well
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("key of the apps' links: %w", err)
	}
	return nil
}

// sum is the secret of a place for one purpose: 256 bits.
func (k *Key) sum(purpose string, at api.AppPlace) string {
	h := hmac.New(sha256.New, k[:])
	fmt.Fprintf(h, "%s\x00%d\x00%d\x00%d\x00%s", purpose, at.ID.Job, at.ID.Index, at.Attempt, at.Name)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// Purposes of secrets. The app learns its token, and must not learn its link from that.
const (
	forLink   = "link"
	forCookie = "cookie"
	forToken  = "token"
)

// pass is a secret with the name of the app that it is for.
func (k *Key) pass(purpose string, at api.AppPlace) string {
	return base64.RawURLEncoding.EncodeToString([]byte(at.Name)) + "." + k.sum(purpose, at)
}

// opens says which app of a place a pass opens. It takes as long for a wrong one as for a right one.
func (k *Key) opens(purpose string, at api.AppPlace, pass string) (api.AppPlace, bool) {
	name64, sum, _ := strings.Cut(pass, ".")
	name, err := base64.RawURLEncoding.Strict().DecodeString(name64)
	at.Name = string(name)
	good := hmac.Equal([]byte(k.sum(purpose, at)), []byte(sum))
	return at, good && err == nil
}

// label is the first word of an app's host name: job, element, attempt, and the app as far as host names can say it.
func label(at api.AppPlace) string {
	return fmt.Sprintf("%d-%d-%d-%s", at.ID.Job, at.ID.Index, at.Attempt, hostWord(at.Name))
}

// maxWord leaves room for the numbers in the 63 characters of a label.
const maxWord = 20

// hostWord is a name as a part of a host name: itself where it can be.
func hostWord(name string) string {
	word := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	if word == name && len(word) <= maxWord {
		return word
	}
	sum := sha256.Sum256([]byte(name))
	return strings.Trim(word[:min(len(word), maxWord-9)], "-") + "-" + hex.EncodeToString(sum[:4])
}

// parseLabel is the inverse of label but for the name, which the pass has. What label does not make is refused.
func parseLabel(s string) (api.AppPlace, error) {
	part := strings.SplitN(s, "-", 4)
	if len(part) != 4 || part[3] == "" || len(s) > 63 {
		return api.AppPlace{}, errors.New("the address of an app begins with job-element-attempt-name")
	}
	var n [3]int64
	for i, bits := range []int{64, 32, 32} { // as the types have them
		v, err := strconv.ParseInt(part[i], 10, bits)
		if err != nil || v < 0 || strconv.FormatInt(v, 10) != part[i] {
			return api.AppPlace{}, fmt.Errorf("%.20q in the address of an app is no number", part[i])
		}
		n[i] = v
	}
	for _, c := range []byte(part[3]) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return api.AppPlace{}, fmt.Errorf("%.40q in the address of an app is no name", part[3])
		}
	}
	return api.AppPlace{ID: queue.ElementID{Job: queue.JobID(n[0]), Index: int(n[1])}, Attempt: int(n[2])}, nil
}
