package transport

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// promptConn is a connection whose reads and writes can be prompt: they do not wait. A
// prompt read returns EAGAIN if there are no bytes. Bytes that the system does not take at
// once from a prompt write are kept in rest, and the next write that may wait writes them
// first. One goroutine at a time may read, and one may write.
type promptConn struct {
	net.Conn
	raw      syscall.RawConn // nil: all reads and writes may wait
	readFile int             // -1: reads may wait
	prompt   bool            // writes do not wait
	rest     []byte

	one   [1][]byte
	parts [][]byte // of the prompt write in progress
	n     int      // bytes that it has written
	err   error
	try   func(fd uintptr) bool
}

func newPromptConn(conn net.Conn) *promptConn {
	c := &promptConn{Conn: conn, readFile: -1}
	if s, ok := conn.(syscall.Conn); ok && isPrompt {
		c.raw, _ = s.SyscallConn()
	}
	c.try = func(fd uintptr) bool {
		c.n, c.err = writeNow(int(fd), c.parts)
		return true // in any case: false would wait
	}
	return c
}

// canBePrompt reports whether prompt reads and writes are possible.
func (c *promptConn) canBePrompt() bool { return c.raw != nil }

// Read implements net.Conn.
func (c *promptConn) Read(p []byte) (int, error) {
	if c.readFile < 0 {
		return c.Conn.Read(p)
	}
	n, err := readNow(c.readFile, p)
	return n, c.nameEnds("read", err)
}

// nameEnds adds the addresses of both ends to an error of the system, as package net does.
func (c *promptConn) nameEnds(op string, err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) && errno != syscall.EAGAIN {
		local := c.LocalAddr()
		return &net.OpError{Op: op, Net: local.Network(), Source: local, Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, errno)}
	}
	return err
}

// Write implements net.Conn.
func (c *promptConn) Write(p []byte) (int, error) {
	c.one[0] = p
	if err := c.writeParts(c.one[:]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// writeParts writes parts one after the other, and overwrites the list.
func (c *promptConn) writeParts(parts [][]byte) error {
	if c.prompt {
		return c.writePrompt(parts)
	}
	if err := c.writeRest(); err != nil {
		return err
	}
	bufs := net.Buffers(parts)
	_, err := bufs.WriteTo(c.Conn)
	return err
}

// writeRest writes the bytes that were not taken at once, unless writes are prompt.
func (c *promptConn) writeRest() error {
	if c.prompt || len(c.rest) == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.rest)
	c.rest = c.rest[:0]
	return err
}

func (c *promptConn) writePrompt(parts [][]byte) error {
	written := 0
	if len(c.rest) == 0 {
		c.parts = parts
		if err := c.raw.Write(c.try); err != nil {
			return err
		}
		if c.err != nil {
			return c.nameEnds("write", c.err)
		}
		written = c.n
	}
	for _, p := range parts {
		n := min(written, len(p))
		written -= n
		c.rest = append(c.rest, p[n:]...)
	}
	return nil
}

// CloseWrite ends the direction to the peer, if the connection supports that.
func (c *promptConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
