package transport

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

const (
	// batchFrames is how many frames go out in one call.
	batchFrames = 16
	// readAhead is what one read may bring beyond what is asked for.
	readAhead = 64 << 10
)

// run starts the goroutines that carry the link's frames.
func (l *link) run() {
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
		start("listen to", l.listen)
		start("serve ring of", l.ring.serve)
		return
	}
	start("read from", l.read)
	start("write to", l.write)
}

// read takes frames from the connection until it ends.
func (l *link) read() {
	r := bufio.NewReaderSize(l.conn, readAhead)
	var n int
	step := func() error {
		var err error
		n, err = r.Read(l.in.want())
		return err
	}
	var err error
	for err == nil {
		if err = l.world.env.Do("read from a process", step); n > 0 {
			l.heard.Store(int64(l.world.env.Now()))
			if broken := l.in.got(n); broken != nil {
				err = broken
			}
		}
	}
	l.fail(connectionLost(err))
	l.in.abandon()
}

// errHungUp is the cause of a loss that the peer's end of its connection shows.
var errHungUp = errors.New("its connection was closed")

func connectionLost(err error) error {
	if errors.Is(err, io.EOF) {
		return errHungUp
	}
	return err
}

// write sends frames over the connection, as many at a time as there are.
func (l *link) write() {
	var frames [batchFrames]frame
	var parts [2 * batchFrames][]byte
	n := 0
	step := func() error {
		bufs := net.Buffers(parts[:0])
		for i := range frames[:n] {
			bufs = append(bufs, frames[i].head[:])
			if p := frames[i].payload; len(p) > 0 {
				bufs = append(bufs, p)
			}
		}
		_, err := bufs.WriteTo(l.conn)
		return err
	}
	for l.awaitFrames() {
		n = 0
		for n < batchFrames && l.next(&frames[n]) {
			n++
		}
		err := l.world.env.Do("write to a process", step)
		for i := range frames[:n] {
			l.written(&frames[i], err)
		}
		if err != nil {
			// The peer may have said why before it went: give read time to find that.
			_ = l.conn.SetReadDeadline(l.world.env.Deadline(l.world.heartbeat))
			return
		}
	}
	l.hangUpWrites()
}

// awaitFrames waits for something to write; it reports false when the link is over.
func (l *link) awaitFrames() bool {
	l.mon.Lock()
	defer l.mon.Unlock()
	for l.err == nil && l.queued.Load() == 0 && !l.closing {
		l.mon.Wait()
	}
	return l.err == nil && l.queued.Load() > 0
}

// hangUpWrites tells the peer that nothing follows. What it still sends is read, so
// that closing the connection does not destroy what it has not yet read.
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

// listen takes heartbeats from the connection beside a ring, until it ends.
func (l *link) listen() {
	var b [headerBytes]byte
	var h header
	step := func() error {
		_, err := io.ReadFull(l.conn, b[:])
		return err
	}
	var err error
	for err == nil {
		if err = l.world.env.Do("listen to a process", step); err == nil {
			l.heard.Store(int64(l.world.env.Now()))
			if err = h.decode(&b); err == nil && h.kind != frameHeartbeat {
				err = protocolError("kind %d beside a ring", h.kind)
			}
		}
	}
	l.ring.drain()
	l.fail(connectionLost(err))
	l.ring.stop()
}

// beat says that this process lives.
func (l *link) beat() {
	h := header{kind: frameHeartbeat, generation: l.world.generation}
	if l.ring == nil {
		l.mon.Lock()
		if len(l.control) == 0 && !l.closing && !l.saidBye {
			l.addControl(h, nil)
		}
		l.mon.Unlock()
		return
	}
	var b [headerBytes]byte
	h.encode(&b)
	_ = l.conn.SetWriteDeadline(l.world.env.Deadline(l.world.heartbeat))
	_ = l.world.env.Do("heartbeat", func() error {
		_, err := l.conn.Write(b[:])
		return err // listen sees what is wrong
	})
}
