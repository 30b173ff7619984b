package shepherd

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// resize takes a viewer's window size, as a frame has it. What is none is ignored.
func (t *terminal) resize(v *viewer, payload []byte) {
	if !t.tty || len(payload) != 4 {
		return
	}
	rows, cols := binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:])
	if rows == 0 || cols == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v.rows, v.cols = rows, cols
	t.fit()
}

// fit gives the terminal the size that every viewer can show whole: the fewest rows and the fewest columns of any. Without a
// viewer that has said its size it stays as it is. The caller holds mu.
func (t *terminal) fit() {
	var rows, cols uint16
	for v := range t.viewers {
		if v.rows == 0 {
			continue
		}
		if rows == 0 {
			rows, cols = v.rows, v.cols
		}
		rows, cols = min(rows, v.rows), min(cols, v.cols)
	}
	if rows == 0 {
		return
	}
	raw, err := t.input.SyscallConn()
	if err != nil {
		return // the job has ended
	}
	_ = raw.Control(func(fd uintptr) { // the kernel tells the job of a size that is another one, and of no other
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
}
