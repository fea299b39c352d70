package transport

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
	"time"
)

// chunked is a connection that gives at most as many bytes as one read asks for, and counts reads.
type chunked struct {
	net.Conn
	from  *bytes.Reader
	reads int
	end   error // in place of io.EOF
}

func (c *chunked) Read(p []byte) (int, error) {
	c.reads++
	n, err := c.from.Read(p)
	if err == io.EOF && c.end != nil {
		err = c.end
	}
	return n, err
}

// TestReadAhead: short and long reads return the bytes of the connection in order. Short ones share a call; of a
// long payload at most bulkAhead bytes are read ahead once others came before it.
func TestReadAhead(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	all := make([]byte, 3<<20)
	for i := range all {
		all[i] = byte(r.Uint32())
	}
	a := &aheadReader{conn: &chunked{from: bytes.NewReader(all)}, buf: make([]byte, readAhead)}
	for at := 0; at < len(all); {
		p := make([]byte, []int{headerBytes, 1 + r.IntN(300), bulkAhead, pieceBytes}[r.IntN(4)])
		n, err := a.Read(p)
		if err != nil || n == 0 || !bytes.Equal(p[:n], all[at:at+n]) {
			t.Fatalf("%d of %d bytes at %d, %v", n, len(p), at, err)
		}
		at += n
	}
	if n, err := a.Read(make([]byte, headerBytes)); n != 0 || err != io.EOF {
		t.Errorf("%d bytes after the end, %v", n, err)
	}

	conn := &chunked{from: bytes.NewReader(all)}
	a = &aheadReader{conn: conn, buf: make([]byte, readAhead)}
	read := func(n int) {
		if _, err := io.ReadFull(a, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		read(headerBytes)
	}
	if conn.reads != 1 {
		t.Errorf("%d reads for 100 headers, want 1", conn.reads)
	}
	for range 10 {
		read(headerBytes)
		read(pieceBytes)
	}
	before := conn.reads
	a.conn = &chunked{from: bytes.NewReader(nil), end: syscall.EAGAIN} // the next header has not arrived
	if n, err := a.Read(make([]byte, headerBytes)); n != 0 || err != syscall.EAGAIN {
		t.Errorf("%d bytes, %v of a connection that has none", n, err)
	}
	a.conn = conn
	read(headerBytes)
	if len(a.unread) != bulkAhead-headerBytes {
		t.Errorf("%d bytes are read ahead after a long payload, want %d", len(a.unread), bulkAhead-headerBytes)
	}
	read(pieceBytes)
	if got := conn.reads - before; got != 2 {
		t.Errorf("%d reads for a header and a long payload, want 2", got)
	}
}
