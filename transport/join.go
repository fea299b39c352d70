package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

const (
	// handshakeLimit is how long a connection may take to prove that it is a peer.
	handshakeLimit = 5 * time.Second
	// maxHalfOpen bounds the connections that have not yet proved it.
	maxHalfOpen = 64
	// redialAfter is how long to wait for a peer that does not listen yet.
	redialAfter = 20 * time.Millisecond
)

// Join connects this process with all others and returns the endpoints of the
// ranks it hosts, in the order of Processes[Self].Ranks. All processes call it;
// each dials those with lower numbers. It ends when all are connected, or fails
// at the timeout, or at once where waiting would not help.
func Join(o NetOptions) ([]Endpoint, error) {
	if o.Dial == nil {
		o.Dial = func(addr string, limit time.Duration) (net.Conn, error) { return net.DialTimeout("tcp", addr, limit) }
	}
	w, err := newNetWorld(&o)
	if err != nil {
		return nil, err
	}
	listener, ok := o.Listener.(interface{ SetDeadline(time.Time) error })
	higher := len(o.Processes) - 1 - o.Self
	if higher > 0 && !ok {
		return nil, errors.New("transport: Join needs a listener with SetDeadline, as those of TCP are")
	}
	j := &joining{
		last: map[int]error{},
		o:    &o, w: w,
		until:   o.Env.Now() + o.Timeout,
		mon:     o.Env.Monitor("join"),
		missing: len(o.Processes) - 1,
	}
	for peer := range o.Self {
		j.start(fmt.Sprintf("dial process %d", peer), func() { j.dial(peer) })
	}
	if higher > 0 {
		_ = listener.SetDeadline(o.Env.Deadline(o.Timeout))
		j.start("accept", j.accept)
	}
	err = j.wait()
	if higher > 0 {
		_ = listener.SetDeadline(time.Unix(1, 0)) // ends accept
	}
	j.finish()
	if higher > 0 {
		_ = listener.SetDeadline(time.Time{})
	}
	if err != nil {
		for _, l := range w.links {
			if l != nil {
				l.fail(err)
				if l.ring != nil {
					l.ring.release()
				}
			}
		}
		return nil, err
	}
	return w.start(), nil
}

// joining is a Join under way.
type joining struct {
	o     *NetOptions
	w     *netWorld
	until time.Duration // of Env.Now

	mon      env.Monitor // guards what follows, and w.links
	missing  int
	halfOpen []net.Conn
	running  int           // goroutines
	last     map[int]error // of each process that was dialled: why it is not connected yet
	err      error         // fatal
	refused  error         // the last connection that was not believed
	over     bool
}

func (j *joining) start(name string, f func()) {
	j.mon.Lock()
	j.running++
	j.mon.Unlock()
	j.o.Env.Go(name, func() {
		f()
		j.mon.Lock()
		j.running--
		j.mon.Wake()
		j.mon.Unlock()
	})
}

// wait returns when all are there, or when that fails.
func (j *joining) wait() error {
	j.mon.Lock()
	defer j.mon.Unlock()
	for j.missing > 0 && j.err == nil && j.o.Env.Now() < j.until {
		j.mon.WaitUntil(j.until)
	}
	j.over = true
	j.mon.Wake()
	if j.missing == 0 || j.err != nil {
		return j.err
	}
	for i, l := range j.w.links {
		if l == nil && i != j.w.self {
			if j.last[i] != nil {
				return j.last[i]
			}
			cause := fmt.Errorf("it did not connect within %v", j.o.Timeout)
			if j.refused != nil {
				cause = fmt.Errorf("%w; the last connection that was refused: %w", cause, j.refused)
			}
			return &JoinError{Process: i, Addr: j.o.Processes[i].Addr, Cause: cause}
		}
	}
	return j.err
}

// finish ends what still goes on, and waits for it.
func (j *joining) finish() {
	j.mon.Lock()
	defer j.mon.Unlock()
	for _, c := range j.halfOpen {
		_ = c.Close()
	}
	for j.running > 0 {
		j.mon.Wait()
	}
}

// open remembers a connection that is not yet a link; it reports false where there
// are too many, or Join is over.
func (j *joining) open(c net.Conn) bool {
	j.mon.Lock()
	defer j.mon.Unlock()
	if j.over || len(j.halfOpen) >= maxHalfOpen {
		return false
	}
	j.halfOpen = append(j.halfOpen, c)
	return true
}

func (j *joining) accept() {
	for {
		var conn net.Conn
		err := j.o.Env.Do("accept a connection", func() (err error) {
			conn, err = j.o.Listener.Accept()
			return err
		})
		if err != nil {
			j.mon.Lock()
			if timeout := net.Error(nil); j.err == nil && !(errors.As(err, &timeout) && timeout.Timeout()) {
				j.err = fmt.Errorf("transport: accepting on %s: %w", j.o.Listener.Addr(), err)
			}
			j.mon.Wake()
			j.mon.Unlock()
			return
		}
		if !j.open(conn) {
			j.w.stats.Strangers.Add(1)
			_ = conn.Close()
			continue
		}
		j.start("greet a connection", func() {
			if err := j.greet(conn); err != nil {
				j.w.stats.Strangers.Add(1)
				_ = conn.Close()
				j.mon.Lock()
				j.refused = err
				j.mon.Unlock()
			}
		})
	}
}

// greet makes a link of a connection that was accepted.
func (j *joining) greet(conn net.Conn) error {
	defer j.settle(conn)
	return j.o.Env.Do("handshake", func() error {
		if j.o.tune != nil {
			j.o.tune(conn)
		}
		_ = conn.SetDeadline(j.o.Env.Deadline(handshakeLimit))
		expects := func(p int) bool {
			j.mon.Lock()
			defer j.mon.Unlock()
			return j.w.links[p] == nil
		}
		theirs, err := j.w.examine(conn, j.o.Secret, expects, j.canShare)
		if err != nil {
			return err
		}
		l := newLink(j.w, int(theirs.from), conn)
		if theirs.sharedMemory {
			if err := l.openRing(conn); err != nil {
				return err
			}
		}
		return j.linked(l)
	})
}

func (j *joining) canShare(peer int) bool {
	p := j.o.Processes
	return j.o.SharedMemory && p[peer].Host == p[j.o.Self].Host
}

func (j *joining) settle(c net.Conn) {
	j.mon.Lock()
	j.decided(c)
	j.mon.Unlock()
}

// decided forgets a connection that is a link, or over; the caller holds the monitor.
func (j *joining) decided(c net.Conn) {
	j.halfOpen = slices.DeleteFunc(j.halfOpen, func(x net.Conn) bool { return x == c })
}

// linked makes l a link of the world.
func (j *joining) linked(l *link) error {
	_ = l.conn.SetDeadline(time.Time{})
	j.mon.Lock()
	defer j.mon.Unlock()
	if j.over || j.w.links[l.peer] != nil {
		if l.ring != nil {
			l.ring.release()
		}
		return fmt.Errorf("process %d is connected already", l.peer)
	}
	j.w.links[l.peer] = l
	j.decided(l.conn)
	j.missing--
	j.mon.Wake()
	return nil
}

// dial connects with a process that accepts, and tries again while it may start.
func (j *joining) dial(peer int) {
	for {
		err := j.tryDial(peer)
		if err == nil {
			return
		}
		later := j.o.Env.Now() + redialAfter
		err = &JoinError{Process: peer, Addr: j.o.Processes[peer].Addr, Cause: err}
		j.mon.Lock()
		if told := j.last[peer]; told != nil && timedOut(err) {
			err = told // what the peer said, or what was wrong, before time ran out
		}
		j.last[peer] = err
		if j.err == nil && (!errors.As(err, new(temporary)) || later >= j.until) {
			j.err = err
			j.mon.Wake()
		}
		for !j.over && j.err == nil && j.o.Env.Now() < later {
			j.mon.WaitUntil(later)
		}
		stop := j.over || j.err != nil
		j.mon.Unlock()
		if stop {
			return
		}
	}
}

// timedOut reports whether an error says no more than that time is over.
func timedOut(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}

func (j *joining) tryDial(peer int) error {
	var conn net.Conn
	limit := min(handshakeLimit, j.until-j.o.Env.Now())
	err := j.o.Env.Do("dial", func() (err error) {
		conn, err = j.o.Dial(j.o.Processes[peer].Addr, limit)
		return err
	})
	if err != nil {
		return temporary{err}
	}
	if !j.open(conn) {
		_ = conn.Close()
		return temporary{errors.New("too many connections at once")}
	}
	defer j.settle(conn)
	err = j.o.Env.Do("handshake", func() error {
		if j.o.tune != nil {
			j.o.tune(conn)
		}
		_ = conn.SetDeadline(j.o.Env.Deadline(limit))
		sharing, err := introduce(conn, j.o.Secret, hello{
			version: protocolVersion, generation: j.w.generation, from: uint32(j.w.self), to: uint32(peer),
			world: worldDigest(j.w.processes), sharedMemory: j.canShare(peer),
		})
		if err != nil {
			return err
		}
		l := newLink(j.w, peer, conn)
		if sharing {
			if err := l.createRing(conn); err != nil {
				return temporary{err}
			}
		}
		return j.linked(l)
	})
	if err != nil {
		_ = conn.Close()
	}
	return err
}

// createRing makes the shared memory of a link and tells the peer where it is. If
// either side cannot have it, frames travel on the connection.
func (l *link) createRing(conn net.Conn) error {
	mem, name, file, err := createSegment(l.world.generation)
	var s *shm
	if err == nil {
		defer func() { _ = file.Close() }()
		s = newShm(l, mem, true)
	}
	if _, err := conn.Write(name.encode()); err != nil {
		return err
	}
	var opened [1]byte
	if _, err := io.ReadFull(conn, opened[:]); err != nil {
		if mem != nil {
			unmapSegment(mem)
		}
		return err
	}
	switch {
	case mem != nil && opened[0] == 1:
		s.probe()
		l.ring = s
	case mem != nil:
		unmapSegment(mem)
	}
	return nil
}

// openRing is the other end of createRing.
func (l *link) openRing(conn net.Conn) error {
	b := make([]byte, segmentNameBytes)
	if _, err := io.ReadFull(conn, b); err != nil {
		return err
	}
	opened := byte(0)
	if mem, err := openSegment(decodeSegmentName(b)); err == nil {
		l.ring, opened = newShm(l, mem, false), 1
		l.ring.probe()
	}
	_, err := conn.Write([]byte{opened})
	if err != nil && l.ring != nil {
		l.ring.release()
	}
	return err
}
