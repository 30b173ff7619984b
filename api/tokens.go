package api

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"fairslice/queue"
)

// TokenKind says what a token is good for.
type TokenKind string

// Kinds of token. A node's token is useless to a user and the other way round.
const (
	UserToken TokenKind = "user"
	NodeToken TokenKind = "node"
)

// Tokens finds out who holds a token. For a user only Identity.User need be set; for a node User is
// the one name that the token may join as, "" for any.
type Tokens interface {
	Lookup(token string) (who queue.Identity, kind TokenKind, ok bool)
}

// TokenFile keeps tokens in one file, of which it stores the hashes only: who reads the file cannot
// call. Tokens have 256 random bits, so a plain SHA-256 cannot be searched back. Changes by another
// process, such as badmin, are seen at the next Lookup. All methods may be called at once.
type TokenFile struct {
	path string
	now  func() time.Time

	mu      sync.Mutex
	seen    os.FileInfo // what entries were read from; nil before the first read
	entries []tokenEntry
}

type tokenEntry struct {
	ID      string    `json:"id"` // for people: the first letters of the hash
	Kind    TokenKind `json:"kind"`
	Name    string    `json:"name,omitempty"`
	Hash    string    `json:"sha256"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
}

// OpenTokens uses the file, which need not exist. A damaged file is an error: guessing at rights is not an option.
func OpenTokens(path string, now func() time.Time) (*TokenFile, error) {
	t := &TokenFile{path: path, now: now}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t, t.reload()
}

// Lookup compares with every entry in constant time. A file that became unreadable denies.
func (t *TokenFile) Lookup(token string) (queue.Identity, TokenKind, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.reload(); err != nil {
		return queue.Identity{}, "", false
	}
	hash := []byte(hashToken(token))
	var hit *tokenEntry
	for i := range t.entries {
		if subtle.ConstantTimeCompare(hash, []byte(t.entries[i].Hash)) == 1 {
			hit = &t.entries[i]
		}
	}
	if hit == nil || !hit.Expires.IsZero() && !t.now().Before(hit.Expires) {
		return queue.Identity{}, "", false
	}
	return queue.Identity{User: hit.Name}, hit.Kind, true
}

// Create makes a token and returns it, the only time that it can be seen. A life of 0 never ends.
func (t *TokenFile) Create(kind TokenKind, name string, life time.Duration) (string, error) {
	if kind == UserToken && name == "" {
		return "", errors.New("create token: a user's token needs the user's name")
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails: crypto/rand ends the program instead
	token := "fs_" + base64.RawURLEncoding.EncodeToString(secret[:])
	e := tokenEntry{Kind: kind, Name: name, Hash: hashToken(token), Created: t.now().UTC()}
	e.ID = e.Hash[:12]
	if life > 0 {
		e.Expires = e.Created.Add(life)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.reload(); err != nil {
		return "", err
	}
	return token, t.write(append(t.entries, e))
}

// Revoke removes the tokens of this id or name, and says how many there were.
func (t *TokenFile) Revoke(idOrName string) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.reload(); err != nil {
		return 0, err
	}
	var keep []tokenEntry
	for _, e := range t.entries {
		if e.ID != idOrName && e.Name != idOrName {
			keep = append(keep, e)
		}
	}
	if n := len(t.entries) - len(keep); n > 0 && idOrName != "" {
		return n, t.write(keep)
	}
	return 0, nil
}

func hashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// reload reads the file if it is not the one last read. The caller holds mu.
func (t *TokenFile) reload() error {
	info, err := os.Stat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		t.seen, t.entries = nil, nil
		return nil
	}
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	if t.seen != nil && os.SameFile(t.seen, info) && t.seen.ModTime().Equal(info.ModTime()) && t.seen.Size() == info.Size() {
		return nil
	}
	data, err := os.ReadFile(t.path)
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	var entries []tokenEntry
	if err := json.Unmarshal(data, &entries); err != nil {
		return fmt.Errorf("token file %s: %w", t.path, err)
	}
	t.seen, t.entries = info, entries
	return nil
}

// write replaces the file as a whole, so that a crash leaves the old or the new one. The caller holds mu.
func (t *TokenFile) write(entries []tokenEntry) error {
	data, err := json.MarshalIndent(entries, "", "  ")
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(t.path), 0o700); err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(t.path), ".tokens-*") // 0600
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	defer os.Remove(f.Name()) // gone already when all went well
	_, err = f.Write(append(data, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	if err := os.Rename(f.Name(), t.path); err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	t.seen = nil
	return t.reload()
}
