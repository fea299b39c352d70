package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/seal"
)

const (
	// handshakeLimit is how long a connection may take to authenticate itself.
	handshakeLimit = 5 * time.Second
	// maxHalfOpen limits the connections that have not yet done so.
	maxHalfOpen = 64
	// redialAfter is the delay before dialling a peer again that does not listen yet.
	redialAfter = 20 * time.Millisecond
)

// Join connects this process with all others and returns the endpoints of the ranks that
// it hosts, in the order of Processes[Self].Ranks. All processes must call it. Each dials
// those with lower numbers. It returns when all are connected. It fails at the timeout,
// or at once if waiting would not help.
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
		return nil, errors.New("transport: Join needs a listener with SetDeadline, such as a TCP listener")
	}
	j := &joining{
		last: map[int]error{},
		o:    &o, w: w,
		until:   o.Env.Now() + o.Timeout,
		mon:     o.Env.Monitor("join"),
		missing: len(o.Processes) - 1,
	}
	for peer := range o.Self {
		j.startTask(fmt.Sprintf("dial process %d", peer), func() { j.dialPeer(peer) })
	}
	if higher > 0 {
		_ = listener.SetDeadline(o.Env.Deadline(o.Timeout))
		j.startTask("accept", j.acceptLoop)
	}
	err = j.waitForLinks()
	if higher > 0 {
		_ = listener.SetDeadline(time.Unix(1, 0)) // ends acceptLoop
	}
	j.endTasks()
	if higher > 0 {
		_ = listener.SetDeadline(time.Time{})
	}
	if err != nil {
		for _, l := range w.links {
			if l != nil {
				l.drop(err)
			}
		}
		return nil, err
	}
	return w.startLinks(), nil
}

// joining is a Join in progress.
type joining struct {
	o     *NetOptions
	w     *netWorld
	until time.Duration // of Env.Now

	mon      env.Monitor // guards the fields below, and w.links
	missing  int
	halfOpen []net.Conn
	running  int           // goroutines
	accepted int           // incoming connections
	last     map[int]error // of each dialled process: the last error
	err      error         // fatal
	refused  error         // why the last incoming connection was refused
	over     bool
}

func (j *joining) startTask(name string, f func()) {
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

// waitForLinks returns when all processes are connected, or with the reason why not.
func (j *joining) waitForLinks() error {
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
				cause = fmt.Errorf("%w; the last refused connection: %w", cause, j.refused)
			}
			return &JoinError{Process: i, Addr: j.o.Processes[i].Addr, Cause: cause}
		}
	}
	return j.err
}

// endTasks ends the goroutines of the Join, and waits for them.
func (j *joining) endTasks() {
	j.mon.Lock()
	defer j.mon.Unlock()
	for _, c := range j.halfOpen {
		_ = c.Close()
	}
	for j.running > 0 {
		j.mon.Wait()
	}
}

// addHalfOpen records a connection that is not yet a link. It reports false if there are
// too many, or if Join is over.
func (j *joining) addHalfOpen(c net.Conn) bool {
	j.mon.Lock()
	defer j.mon.Unlock()
	if j.over || len(j.halfOpen) >= maxHalfOpen {
		return false
	}
	j.halfOpen = append(j.halfOpen, c)
	return true
}

func (j *joining) acceptLoop() {
	for {
		var conn net.Conn
		err := j.o.Env.Do("accept a connection", func() (err error) {
			conn, err = j.o.Listener.Accept()
			return err
		})
		if err != nil {
			j.mon.Lock()
			if timeout := net.Error(nil); j.err == nil && !(errors.As(err, &timeout) && timeout.Timeout()) {
				j.err = fmt.Errorf("transport: accept on %s: %w", j.o.Listener.Addr(), err)
			}
			j.mon.Wake()
			j.mon.Unlock()
			return
		}
		if !j.addHalfOpen(conn) {
			j.w.stats.Unauthenticated.Add(1)
			_ = conn.Close()
			continue
		}
		j.accepted++
		number := j.accepted
		j.startTask("authenticate a connection", func() {
			if err := j.acceptPeer(conn, number); err != nil {
				j.w.stats.Unauthenticated.Add(1)
				_ = conn.Close()
				j.mon.Lock()
				j.refused = err
				j.mon.Unlock()
			}
		})
	}
}

// acceptPeer makes a link of an incoming connection, of which the newest has the largest number. A peer that dials again has given up its
// connection before, although this process may have made a link of that. So a newer one replaces it, unless links have started.
func (j *joining) acceptPeer(conn net.Conn, number int) error {
	defer j.forgetConn(conn)
	return j.o.Env.Do("handshake", func() error {
		if j.o.tune != nil {
			j.o.tune(conn)
		}
		_ = conn.SetDeadline(j.o.Env.Deadline(handshakeLimit))
		expects := func(p int) bool {
			j.mon.Lock()
			defer j.mon.Unlock()
			return !j.over && (j.w.links[p] == nil || j.w.links[p].number < number)
		}
		m, err := j.w.acceptHandshake(conn, j.o.Secret, expects, j.canShare)
		if err != nil {
			return err
		}
		l := newLink(j.w, int(m.from), m.conn)
		l.number = number
		if m.sharing {
			if err := l.openRing(m.conn); err != nil {
				return err
			}
		}
		return j.addLink(l, conn)
	})
}

func (j *joining) canShare(peer int) bool {
	p := j.o.Processes
	return j.o.SharedMemory && p[peer].Host == p[j.o.Self].Host
}

func (j *joining) forgetConn(c net.Conn) {
	j.mon.Lock()
	j.removeHalfOpen(c)
	j.mon.Unlock()
}

// removeHalfOpen removes a connection that has become a link or has failed. The caller
// holds the monitor.
func (j *joining) removeHalfOpen(c net.Conn) {
	j.halfOpen = slices.DeleteFunc(j.halfOpen, func(x net.Conn) bool { return x == c })
}

// addLink makes l the link with its peer. conn is its connection as recorded by
// addHalfOpen, below the sealing.
func (j *joining) addLink(l *link, conn net.Conn) error {
	_ = l.conn.SetDeadline(time.Time{})
	j.mon.Lock()
	defer j.mon.Unlock()
	old := j.w.links[l.peer]
	if j.over || old != nil && old.number >= l.number {
		if l.ring != nil {
			l.ring.releaseOwn()
		}
		return fmt.Errorf("process %d is already connected", l.peer)
	}
	if old == nil {
		j.missing--
	} else {
		old.drop(errReplaced)
	}
	j.w.links[l.peer] = l
	j.removeHalfOpen(conn)
	j.mon.Wake()
	return nil
}

// errReplaced ends a link whose peer has dialled again.
var errReplaced = errors.New("its process has dialled again")

// drop ends a link that has not started.
func (l *link) drop(cause error) {
	l.failWith(cause)
	if l.ring != nil {
		l.ring.releaseOwn()
	}
}

// dialPeer connects with a process that accepts. It retries as long as the process may be
// starting.
func (j *joining) dialPeer(peer int) {
	for {
		err := j.tryDial(peer)
		if err == nil {
			return
		}
		later := j.o.Env.Now() + redialAfter
		err = &JoinError{Process: peer, Addr: j.o.Processes[peer].Addr, Cause: err}
		j.mon.Lock()
		if previous := j.last[peer]; previous != nil && (timedOut(err) ||
			errors.As(err, new(noReply)) && errors.As(previous, new(refusal))) {
			err = previous // a timeout explains nothing, and a process that refused and then ends closes its connections
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

// timedOut reports whether an error is only a timeout.
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
	if !j.addHalfOpen(conn) {
		_ = conn.Close()
		return temporary{errors.New("too many connections at once")}
	}
	defer j.forgetConn(conn)
	err = j.o.Env.Do("handshake", func() error {
		if j.o.tune != nil {
			j.o.tune(conn)
		}
		_ = conn.SetDeadline(j.o.Env.Deadline(limit))
		mine := hello{
			version: protocolVersion, generation: j.w.generation, from: uint32(j.w.self), to: uint32(peer),
			world: worldDigest(j.w.processes), sharedMemory: j.canShare(peer),
		}
		if j.w.mustSeal(peer) {
			mine.suite = seal.Fastest()
		}
		m, err := dialHandshake(conn, j.o.Secret, mine)
		if err != nil {
			return err
		}
		l := newLink(j.w, peer, m.conn)
		if m.sharing {
			if err := l.createRing(m.conn); err != nil {
				return temporary{err}
			}
		}
		return j.addLink(l, conn)
	})
	if err != nil {
		_ = conn.Close()
	}
	return err
}

// createRing makes the shared memory of a link and sends the peer its name. If either
// side cannot map it, frames are sent over the connection.
func (l *link) createRing(conn net.Conn) error {
	g, name, closeSpare, err := createSegment(l.world.generation)
	var s *shm
	if err == nil {
		defer closeSpare()
		s = newShm(l, g, true)
	}
	var opened [1]byte
	if _, err = conn.Write(name.encodeName()); err == nil {
		_, err = io.ReadFull(conn, opened[:])
	}
	switch {
	case err == nil && g != nil && opened[0] == 1:
		s.probePeer()
		l.ring = s
	case g != nil:
		g.closeSegment()
	}
	return err
}

// openRing is the other end of createRing.
func (l *link) openRing(conn net.Conn) error {
	b := make([]byte, segmentNameBytes)
	if _, err := io.ReadFull(conn, b); err != nil {
		return err
	}
	opened := byte(0)
	if g, err := openSegment(decodeSegmentName(b)); err == nil {
		l.ring, opened = newShm(l, g, false), 1
		l.ring.probePeer()
	}
	_, err := conn.Write([]byte{opened})
	if err != nil && l.ring != nil {
		l.ring.releaseOwn()
	}
	return err
}
