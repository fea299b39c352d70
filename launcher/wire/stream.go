package wire

import "net"

// Stream is a Conn as a connection of bytes. Each write is one sealed frame.
type Stream struct {
	net.Conn
	frames *Conn
	rest   []byte // received and not read
}

// NewStream uses a connection for bytes, once its handshake is done.
func NewStream(c *Conn) *Stream { return &Stream{Conn: c.conn, frames: c} }

func (s *Stream) Write(p []byte) (n int, err error) {
	for n < len(p) {
		part := p[n:min(len(p), n+maxMessageBytes)]
		if err := s.frames.sendFrame(part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

func (s *Stream) Read(p []byte) (n int, err error) {
	for len(s.rest) == 0 {
		if s.rest, err = s.frames.receiveFrame(); err != nil {
			s.rest = nil
			return 0, err
		}
	}
	n = copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
