package transport

import (
	"fmt"
	"io"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/seal"
)

// startLoops starts the goroutines that send and receive the link's frames.
func (l *link) startLoops() {
	start := func(what string, f func()) {
		name := fmt.Sprintf("%s process %d", what, l.peer)
		over := env.NewEvent(l.world.env, name)
		l.stopped = append(l.stopped, over)
		l.world.env.Go(name, func() {
			f()
			over.Set(nil)
		})
	}
	if l.ring != nil {
		start("receive heartbeats of", l.receiveHeartbeats)
		start("serve ring of", l.ring.serveRings)
		return
	}
	conn := newPromptConn(l.conn)
	if sealed := l.sealedConn(); sealed != nil {
		conn = newPromptConn(sealed.Conn)
		sealed.Conn = conn
	}
	l.reader, l.writer = newConnReader(l, conn), &connWriter{link: l, conn: conn}
	start("read from", l.reader.readLoop)
	start("write to", l.writer.writeLoop)
}

// sealedConn returns the link's connection, nil if it is not sealed.
func (l *link) sealedConn() *seal.Conn {
	c, _ := l.conn.(*seal.Conn)
	return c
}

// hangUpWrites announces to the peer that nothing follows. Frames that the peer still
// sends are read, so that closing the connection does not destroy data that the peer has
// not yet read.
func (l *link) hangUpWrites() {
	if c, ok := l.conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
}

// hangUp ends the connection, at the latest after limit.
func (l *link) hangUp(limit time.Duration) {
	_ = l.conn.SetDeadline(l.world.env.Deadline(limit))
	if l.ring != nil {
		l.hangUpWrites()
	}
}

// receiveHeartbeats receives heartbeats from the connection beside a ring, until it ends.
func (l *link) receiveHeartbeats() {
	var b [headerBytes]byte
	var h header
	step := func() error {
		_, err := io.ReadFull(l.conn, b[:])
		return err
	}
	var err error
	for err == nil {
		if err = l.world.env.Do("receive heartbeats of a process", step); err == nil {
			l.lastReceived.Store(int64(l.world.env.Now()))
			if err = h.decodeHeader(&b); err == nil && h.kind != frameHeartbeat {
				err = protocolError("frame of kind %d beside a ring", h.kind)
			}
		}
	}
	l.ring.drainInbound()
	l.failWith(connectionLost(err))
	l.ring.stopRings()
}

// sendHeartbeat sends the peer a sign of life.
func (l *link) sendHeartbeat() {
	h := header{kind: frameHeartbeat, generation: l.world.generation}
	if l.ring == nil {
		l.mon.Lock()
		if l.control.len() == 0 && !l.closing && !l.sentBye {
			l.addControl(h, nil)
		}
		l.mon.Unlock()
		l.flushFrames()
		return
	}
	var b [headerBytes]byte
	h.encodeHeader(&b)
	_ = l.conn.SetWriteDeadline(l.world.env.Deadline(l.world.heartbeat))
	_ = l.world.env.Do("heartbeat", func() error {
		_, err := l.conn.Write(b[:])
		return err // receiveHeartbeats notices the failure
	})
}
