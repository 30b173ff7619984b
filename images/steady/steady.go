// Package steady writes large files without holding up others who wait for the same disk.
package steady

import "os"

// Writer writes to the disk as it goes. Else gigabytes would wait in memory until somebody, such as the database whose log is
// on the same disk, asks for a few bytes of their own to be written, and has to wait for all of them.
type Writer struct {
	File *os.File

	late int // bytes that are not on the disk yet
}

// syncEvery is how many bytes wait in memory at most.
const syncEvery = 16 << 20

// Write writes to File. What it does not sync itself is left to whoever closes it.
func (w *Writer) Write(p []byte) (int, error) {
	n, err := w.File.Write(p)
	if w.late += n; err == nil && w.late >= syncEvery {
		w.late, err = 0, w.File.Sync()
	}
	return n, err
}
