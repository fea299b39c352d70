package seal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

const (
	// HeadBytes is the length of a record's head.
	HeadBytes = 4
	// recordBytes is the most plaintext in a record of a Conn.
	recordBytes = 32 << 10
	mostBytes   = HeadBytes + recordBytes + Overhead
	// aloneBytes is the least length of a part that gets its own records. Shorter parts are
	// copied into a common record, which costs less than another record.
	aloneBytes = 2 << 10
	// writeBytes is the length at which sealed records are written.
	writeBytes = 4 * recordBytes
	// readBytes is the length of the read buffer. A record that does not end in it is moved
	// to its front: the more records it holds, the fewer bytes are moved.
	readBytes = 4 * mostBytes
)

// Conn is a connection that sends its bytes in records. One goroutine may read while another
// writes. After an error a direction returns the same error again.
type Conn struct {
	net.Conn
	out, in *Direction

	sealed  []byte // records to be written
	open    int    // offset in sealed of the record that can take more parts; -1: none
	failed  error  // of writing
	broken  error  // of reading
	raw     []byte // read buffer: sealed records
	from    int    // of raw: the first byte of no record yet
	until   int    // of raw: the first byte not read
	waiting []byte // plaintext, in raw, not yet returned
}

// NewConn seals the bytes of conn from now on. Both ends must begin at the same byte of the
// stream.
func NewConn(conn net.Conn, p *Pair) *Conn {
	return &Conn{Conn: conn, out: p.Out, in: p.In, open: -1}
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	if err := c.WriteParts(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteParts writes parts one after the other, with few system calls. Long parts are
// encrypted from their own memory, without a copy.
func (c *Conn) WriteParts(parts ...[]byte) error {
	if c.sealed == nil {
		c.sealed = make([]byte, 0, writeBytes+mostBytes)
	}
	for _, p := range parts {
		if len(p) < aloneBytes {
			c.addPart(p)
			continue
		}
		c.sealRecord()
		for len(p) > 0 && c.failed == nil {
			n := min(len(p), recordBytes)
			c.beginRecord(n)
			at := len(c.sealed)
			c.sealed = c.out.Seal(c.sealed, p[:n], c.sealed[at-HeadBytes:at])
			p = p[n:]
			c.flushSealed(writeBytes)
		}
	}
	c.sealRecord()
	c.flushSealed(0)
	return c.failed
}

// beginRecord appends the head of a record of n bytes of plaintext.
func (c *Conn) beginRecord(n int) {
	c.sealed = binary.BigEndian.AppendUint32(c.sealed, uint32(n+Overhead))
}

// addPart adds a short part to the open record.
func (c *Conn) addPart(p []byte) {
	if c.open >= 0 && len(c.sealed)-c.open-HeadBytes+len(p) > recordBytes {
		c.sealRecord()
		c.flushSealed(writeBytes)
	}
	if len(p) == 0 {
		return
	}
	if c.open < 0 {
		c.open = len(c.sealed)
		c.beginRecord(0)
	}
	c.sealed = append(c.sealed, p...)
}

// sealRecord seals the open record, if there is one.
func (c *Conn) sealRecord() {
	if c.open < 0 {
		return
	}
	at := c.open + HeadBytes
	head, text := c.sealed[c.open:at], c.sealed[at:]
	binary.BigEndian.PutUint32(head, uint32(len(text)+Overhead))
	c.sealed, c.open = c.out.Seal(c.sealed[:at], text, head), -1
}

// flushSealed writes the sealed records if they are longer than limit.
func (c *Conn) flushSealed(limit int) {
	if len(c.sealed) <= limit {
		return
	}
	if c.failed == nil {
		_, c.failed = c.Conn.Write(c.sealed)
	}
	c.sealed = c.sealed[:0]
}

// Read implements net.Conn. A record that fits into p is decrypted there. If the connection
// below returns EAGAIN, so does Read, and it may be called again.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(c.waiting) == 0 {
		if c.broken != nil {
			return 0, c.broken
		}
		n, err := c.openRecord(p)
		if !errors.Is(err, syscall.EAGAIN) {
			c.broken = err
		}
		if err != nil || n > 0 {
			return n, err
		}
	}
	n := copy(p, c.waiting)
	c.waiting = c.waiting[n:]
	return n, nil
}

// openRecord opens the next record. It decrypts n bytes into p if they fit. If not, n is 0,
// and the plaintext is in c.waiting.
func (c *Conn) openRecord(p []byte) (n int, err error) {
	if err := c.readAtLeast(HeadBytes); err != nil {
		return 0, err
	}
	head := c.raw[c.from : c.from+HeadBytes]
	length := int(binary.BigEndian.Uint32(head))
	if length <= Overhead || length > recordBytes+Overhead {
		return 0, fmt.Errorf("a record of %d bytes: %w", length, ErrForged)
	}
	if err := c.readAtLeast(HeadBytes + length); err != nil {
		return 0, err
	}
	head = c.raw[c.from : c.from+HeadBytes] // readAtLeast may have moved it
	sealed := c.raw[c.from+HeadBytes : c.from+HeadBytes+length]
	c.from += HeadBytes + length
	if length-Overhead > len(p) {
		c.waiting, err = c.in.Open(sealed[:0], sealed, head)
		return 0, err
	}
	text, err := c.in.Open(p[:0], sealed, head)
	return len(text), err
}

// readAtLeast reads until the buffer holds n bytes of the next record.
func (c *Conn) readAtLeast(n int) error {
	if c.raw == nil {
		c.raw = make([]byte, readBytes)
	}
	if c.from+n > len(c.raw) || c.from == c.until {
		c.until = copy(c.raw, c.raw[c.from:c.until])
		c.from = 0
	}
	for c.until-c.from < n {
		k, err := c.Conn.Read(c.raw[c.until:])
		c.until += k
		switch {
		case k > 0:
		case errors.Is(err, io.EOF) && c.until > c.from:
			return fmt.Errorf("the connection ended within a record: %w", io.ErrUnexpectedEOF)
		case err != nil:
			return err
		}
	}
	return nil
}

// CloseWrite ends the direction to the peer, if the connection supports that.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
