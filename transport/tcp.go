package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/seal"
)

const (
	// batchFrames is the number of frames written in one call.
	batchFrames = 16
	// batchBytes is the length of their payloads from which no more frames are added: the
	// connection would be idle while their checksums are computed, and the first bytes
	// would have left the core's cache.
	batchBytes = 256 << 10
	// readAhead is the buffer of a connection: one read may return more than was asked
	// for.
	readAhead = 64 << 10
	// bulkAhead is how much of it is used after a long payload. Another one follows as a
	// rule, and bytes that are read ahead are copied once more.
	bulkAhead = 4 << 10
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
	start("read from", l.readLoop)
	start("write to", l.writeLoop)
}

// sealedConn returns the link's connection, nil if it is not sealed.
func (l *link) sealedConn() *seal.Conn {
	c, _ := l.conn.(*seal.Conn)
	return c
}

// readLoop receives frames from the connection until it ends.
func (l *link) readLoop() {
	r := io.Reader(l.conn) // a sealed one has a buffer of its own
	if l.sealedConn() == nil {
		r = &aheadReader{conn: l.conn, buf: make([]byte, readAhead)}
	}
	var n int
	step := func() error {
		var err error
		n, err = r.Read(l.in.nextBuffer())
		return err
	}
	var err error
	for err == nil {
		n = 0 // Do need not have called step
		if err = l.world.env.Do("read from a process", step); n > 0 {
			l.lastReceived.Store(int64(l.world.env.Now()))
			if broken := l.in.bytesArrived(n); broken != nil {
				err = broken
			}
		}
	}
	l.failWith(connectionLost(err))
	l.in.abandonReceive()
}

// aheadReader reads from a connection with as few calls as possible: short frames many at
// a time, long payloads directly to where they belong.
type aheadReader struct {
	conn   net.Conn
	buf    []byte
	unread []byte // part of buf
	bulk   bool   // the last call read a long payload
}

func (a *aheadReader) Read(p []byte) (int, error) {
	if len(a.unread) == 0 {
		if len(p) >= bulkAhead {
			a.bulk = len(p) >= len(a.buf)/2
			return a.conn.Read(p)
		}
		ahead := len(a.buf)
		if a.bulk {
			ahead = bulkAhead
		}
		n, err := a.conn.Read(a.buf[:ahead])
		a.unread, a.bulk = a.buf[:n], false
		if n == 0 {
			return 0, err
		}
	}
	n := copy(p, a.unread)
	a.unread = a.unread[n:]
	return n, nil
}

// errHungUp is the cause of a loss if the peer closed its connection.
var errHungUp = errors.New("its connection was closed")

func connectionLost(err error) error {
	if errors.Is(err, io.EOF) {
		return errHungUp
	}
	return err
}

// writeLoop sends frames over the connection, as many as possible at a time.
func (l *link) writeLoop() {
	var frames [batchFrames]frame
	var parts [2 * batchFrames][]byte
	n := 0
	to := l.sealedConn()
	step := func() error {
		bufs := net.Buffers(parts[:0])
		for i := range frames[:n] {
			bufs = append(bufs, frames[i].head[:])
			if p := frames[i].payload; len(p) > 0 {
				bufs = append(bufs, p)
			}
		}
		if to != nil {
			return to.WriteParts(bufs...)
		}
		_, err := bufs.WriteTo(l.conn)
		return err
	}
	for l.awaitFrames() {
		n = 0
		for bytes := 0; n < batchFrames && bytes < batchBytes && l.nextFrame(&frames[n]); n++ {
			bytes += len(frames[n].payload)
		}
		err := l.world.env.Do("write to a process", step)
		for i := range frames[:n] {
			l.frameWritten(&frames[i], err)
		}
		if err != nil {
			// The peer may have sent the reason before it ended: give readLoop time to
			// receive it.
			_ = l.conn.SetReadDeadline(l.world.env.Deadline(l.world.heartbeat))
			return
		}
	}
	l.hangUpWrites()
}

// awaitFrames waits for frames to write. It reports false when the link is over.
func (l *link) awaitFrames() bool {
	l.mon.Lock()
	defer l.mon.Unlock()
	for l.err == nil && l.queued.Load() == 0 && !l.closing {
		l.mon.Wait()
	}
	return l.err == nil && l.queued.Load() > 0
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
