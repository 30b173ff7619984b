package agent

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// The end of an output is of what the job itself has written: what was in the file before it does not count.
func TestSkipToLeavesTheEndOfWhatIsLeft(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(name, []byte("before|the job's words"), 0o600); err != nil {
		t.Fatal(err)
	}
	for last, want := range map[int64]string{5: "words", 15: "the job's words", 16: "the job's words", 1000: "the job's words"} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Seek(int64(len("before|")), io.SeekStart); err != nil {
			t.Fatal(err)
		}
		skipTo(f, last)
		if got, err := io.ReadAll(f); err != nil || string(got) != want {
			t.Errorf("the last %d bytes: %q, %v", last, got, err)
		}
	}
	skipTo(nil, 5)
}
