package session

import (
	"sync"

	"golang.org/x/term"
)

// Terminal is the terminal that standard input is. All methods work on nil: there is none.
type Terminal struct {
	fd    int
	mu    sync.Mutex
	saved *term.State // guarded by mu; nil while the terminal is in its own mode
}

// TerminalOf is the terminal behind a reader or writer, nil when it is something else.
func TerminalOf(r any) *Terminal {
	f, ok := r.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &Terminal{fd: int(f.Fd())}
}

// Size is 0, 0 when it cannot be told.
func (t *Terminal) Size() (rows, cols uint16) {
	if t == nil {
		return 0, 0
	}
	w, h, err := term.GetSize(t.fd)
	if err != nil || w <= 0 || h <= 0 || w > 1<<15 || h > 1<<15 {
		return 0, 0
	}
	return uint16(h), uint16(w)
}

// Raw passes every key on as it is. A terminal that cannot do it stays as it is: the session works, less well.
func (t *Terminal) Raw() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved == nil {
		t.saved, _ = term.MakeRaw(t.fd)
	}
}

// Restore gives the terminal back as it was.
func (t *Terminal) Restore() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved != nil {
		_ = term.Restore(t.fd, t.saved) // the terminal may be gone
		t.saved = nil
	}
}
