package test

import (
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"
)

// What is no protocol at all must not hurt: neither random bytes, nor half a request, nor a connection
// that never says anything.
func TestGarbageOnTheSocket(t *testing.T) {
	c := running(t)
	socket := strings.TrimPrefix(c.addr, "unix://")
	random := rand.New(rand.NewPCG(1, 2))
	var silent []net.Conn
	for i := range 60 {
		conn, err := net.DialTimeout("unix", socket, patience)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		var junk []byte
		switch i % 6 {
		case 0:
			junk = make([]byte, random.IntN(1<<16))
			for k := range junk {
				junk[k] = byte(random.Uint32())
			}
		case 1:
			junk = []byte("POST /fairslice.v1.Users/Submit HTTP/1.1\r\nHost: x\r\nContent-Type: application/proto\r\nContent-Length: 9\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff")
		case 2:
			junk = []byte("POST /fairslice.v1.Users/Submit HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n")
		case 3:
			junk = []byte("POST /fairslice.v1.Users/Jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/connect+proto\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n\x00\xff\xff\xff\xff\r\n0\r\n\r\n")
		case 4:
			junk = []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\xff", 4096))
		case 5:
			silent = append(silent, conn) // kept open to the end of the test
			continue
		}
		_, _ = conn.Write(junk) // it may hang up in the middle: that is its right
		_ = conn.Close()
	}
	dir := t.TempDir()
	if out := c.must(t, dir, "bsub -K -o out echo served 2>/dev/null; head -1 out"); !strings.Contains(out, "served") {
		t.Errorf("after the garbage: %q", out)
	}
	for _, conn := range silent {
		_ = conn.Close()
	}
}
