package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
)

// maxCached bounds the bytes of scripts and environments kept in memory; the rest is read from the
// store when a job starts.
const maxCached = 64 << 20

// blobCache keeps recent scripts and environments by their hash: jobs of one submit loop share theirs.
type blobCache struct {
	mu    sync.Mutex
	data  map[string][]byte
	order []string // oldest first
	size  int
}

func newBlobCache() blobCache { return blobCache{data: map[string][]byte{}} }

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (c *blobCache) get(hash string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, ok := c.data[hash]
	return d, ok
}

func (c *blobCache) put(hash string, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.data[hash]; ok || len(data) > maxCached/4 {
		return
	}
	c.data[hash] = data
	c.order = append(c.order, hash)
	c.size += len(data)
	for c.size > maxCached {
		oldest := c.order[0]
		c.order = c.order[1:]
		c.size -= len(c.data[oldest])
		delete(c.data, oldest)
	}
}

// blob reads a script or environment.
func (e *Engine) blob(ctx context.Context, hash string) ([]byte, error) {
	if hash == "" {
		return nil, nil
	}
	if d, ok := e.blobs.get(hash); ok {
		return d, nil
	}
	d, err := e.store.Blob(ctx, hash)
	if err == nil {
		e.blobs.put(hash, d)
	}
	return d, err
}

// packEnv joins environment entries, each preceded by its length, so that any byte may occur in them.
func packEnv(env [][]byte) []byte {
	size := 0
	for _, v := range env {
		size += len(v) + 4
	}
	out := make([]byte, 0, size)
	for _, v := range env {
		out = binary.BigEndian.AppendUint32(out, uint32(len(v)))
		out = append(out, v...)
	}
	return out
}

func unpackEnv(data []byte) ([][]byte, error) {
	var out [][]byte
	for len(data) > 0 {
		if len(data) < 4 {
			return nil, fmt.Errorf("stored environment is cut off")
		}
		n := int(binary.BigEndian.Uint32(data))
		if data = data[4:]; n > len(data) {
			return nil, fmt.Errorf("stored environment is cut off")
		}
		out = append(out, data[:n:n])
		data = data[n:]
	}
	return out, nil
}
