package transport

import (
	"errors"
	"io"
	"runtime"
	"sync/atomic"
	"syscall"
)

const (
	// readAhead is the buffer of a connection: one read may return more than was asked
	// for.
	readAhead = 64 << 10
	// bulkAhead is how much of it is used after a long payload. Another one follows as a
	// rule, and bytes that are read ahead are copied once more.
	bulkAhead = 4 << 10
	// turnBytes is the length from which a turn ends, even if there are more bytes.
	turnBytes = 256 << 10
)

// connReader reads a link's frames from its connection. One goroutine at a time has the
// turn: readLoop when the connection has bytes, or a goroutine in Wait that polls. The latter
// needs no wake-up by the system, which takes longer than a short message itself.
type connReader struct {
	link   *link
	conn   *promptConn
	from   io.Reader        // conn, behind a buffer or a seal; guarded by the turn
	taken  atomic.Bool      // the turn
	missed atomic.Bool      // readLoop did not get the turn: the goroutine that has it reads again
	left   atomic.Bool      // the last turn ended before there were no more bytes
	err    error            // that ended reading; set before over
	over   atomic.Bool      // nothing more can be read
	poll   func(fd uintptr) // for RawConn.Control, as is must
	must   func(fd uintptr)
	await  func(fd uintptr) bool // for RawConn.Read
}

func newConnReader(l *link, conn *promptConn) *connReader {
	a := &connReader{link: l, conn: conn, from: l.conn} // a sealed one has a buffer of its own
	if l.sealedConn() == nil {
		a.from = &aheadReader{conn: conn, buf: make([]byte, readAhead)}
	}
	a.poll = func(fd uintptr) { a.readArrived(fd, false) }
	a.must = func(fd uintptr) { a.readArrived(fd, true) }
	a.await = func(fd uintptr) bool {
		a.readArrived(fd, true)
		return a.over.Load() || a.left.Load()
	}
	return a
}

// readLoop receives frames until the connection ends.
func (a *connReader) readLoop() {
	l := a.link
	read := a.readWaiting
	if a.conn.canBePrompt() {
		read = func() error { return l.world.env.Do("read from a process", a.readWhenReady) }
	}
	l.failWith(connectionLost(read()))
	for !a.taken.CompareAndSwap(false, true) { // for good
		l.world.env.Sleep(drainPoll)
	}
	l.in.abandonReceive()
}

// readWaiting reads with reads that wait.
func (a *connReader) readWaiting() (err error) {
	var n int
	step := func() (err error) {
		n, err = a.from.Read(a.link.in.nextBuffer())
		return err
	}
	for err == nil {
		n = 0 // Do need not have called step
		err = a.arrived(n, a.link.world.env.Do("read from a process", step))
	}
	return err
}

// readWhenReady reads whenever the system reports that there are bytes.
func (a *connReader) readWhenReady() error {
	for !a.over.Load() {
		if err := a.conn.raw.Read(a.await); err != nil && !a.over.Load() {
			return err
		}
	}
	return a.err
}

// readArrived reads bytes that have arrived at the file of the connection, unless another
// goroutine has the turn. If must is set, that one then reads again.
func (a *connReader) readArrived(fd uintptr, must bool) {
	for {
		if !a.taken.CompareAndSwap(false, true) {
			if !must {
				return
			}
			a.missed.Store(true)
			if !a.taken.CompareAndSwap(false, true) {
				return
			}
		}
		a.missed.Store(false)
		a.conn.readFile = int(fd)
		a.left.Store(a.readTurn())
		a.over.Store(a.err != nil)
		a.taken.Store(false)
		if must = a.missed.Load(); !must {
			return
		}
	}
}

// readTurn reads the bytes that have arrived, up to turnBytes. It reports whether there may
// be more.
func (a *connReader) readTurn() bool {
	for read := 0; a.err == nil && !a.link.gone.Load(); {
		n, err := a.from.Read(a.link.in.nextBuffer())
		if err = a.arrived(n, err); errors.Is(err, syscall.EAGAIN) {
			return false
		}
		a.err = err
		if read += n; read >= turnBytes {
			return a.err == nil
		}
	}
	return false
}

// arrived passes n bytes to the link. It returns the error that ends reading, if any.
func (a *connReader) arrived(n int, err error) error {
	l := a.link
	if n == 0 {
		return err
	}
	l.lastReceived.Store(int64(l.world.env.Now()))
	if broken := l.in.bytesArrived(n); broken != nil {
		err = broken
	}
	if l.queued.Load() > 0 { // answers
		l.flushFrames()
	}
	return err
}

// readUntilDone reads for a short time, until r has ended, unless ranks share cores: polls
// would keep a core from others.
func (a *connReader) readUntilDone(r *netRequest) {
	l, now := a.link, a.link.world.env.Now
	if l.world.polling.shared || !a.conn.canBePrompt() {
		return
	}
	last := l.lastReceived.Load()
	until := now() + pollFor
	for i := 1; !r.over.Load(); i++ {
		if a.conn.raw.Control(a.poll) != nil {
			return // it is closed
		}
		if a.over.Load() {
			l.failWith(connectionLost(a.err)) // readLoop may not have seen it
			return
		}
		if received := l.lastReceived.Load(); received != last {
			last, until = received, now()+pollFor
		} else if now() > until {
			break
		} else {
			osYield()
		}
		if l.world.polling.crowd || i%pollsPerYield == 0 { // the kernel does not run another goroutine on this thread
			runtime.Gosched()
		}
	}
	if a.left.Load() { // the system reports bytes only when they arrive
		l.world.env.Go("read on", a.readOn)
	}
}

// readOn reads until there are no more bytes.
func (a *connReader) readOn() {
	for a.left.Load() && !a.link.gone.Load() && a.conn.raw.Control(a.must) == nil {
		runtime.Gosched()
	}
	if a.over.Load() {
		a.link.failWith(connectionLost(a.err))
	}
}

// aheadReader reads from a connection with as few calls as possible: short frames many at
// a time, long payloads directly to where they belong.
type aheadReader struct {
	conn   io.Reader
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
		a.unread = a.buf[:n]
		if n == 0 {
			return 0, err
		}
		a.bulk = false
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
