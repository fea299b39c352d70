package sim

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/env/virtual"
)

// maxInFlight limits the bytes of a connection in one direction. A writer blocks beyond
// it.
const maxInFlight = 256 << 10

// network is the connections between hosts, which package transport uses in place of TCP.
// Bytes arrive once and in order, except for packets with a fault.
type network struct {
	s         *virtual.Scheduler
	draw      *rand.Rand
	home      *virtual.Process
	mon       env.Monitor // for dialling processes
	pipes     []*pipe     // that may still be read
	listeners map[string]*listener
	down      map[int]bool // hosts without power

	severed []*partition
	slow    map[int]time.Duration // by host: additional delay of its bytes
}

func newNetwork(s *virtual.Scheduler, home *virtual.Process, seed uint64) *network {
	return &network{s: s, home: home, draw: rand.New(rand.NewPCG(seed, purposeNetwork)), mon: home.Monitor("dial"),
		listeners: map[string]*listener{}, down: map[int]bool{}, slow: map[int]time.Duration{}}
}

// atRegister is the number of the register among the hosts.
const atRegister = -1

// partition blocks the bytes between some hosts and all others.
type partition struct {
	hosts    []int // may include atRegister
	out, in  bool  // blocked directions
	register bool  // only messages to and from the register are blocked
}

func (p *partition) isSevered(from, to int) bool {
	if p.register && from != atRegister && to != atRegister {
		return false
	}
	a, b := slices.Contains(p.hosts, from), slices.Contains(p.hosts, to)
	return a && !b && p.out || b && !a && p.in
}

// isSevered reports whether messages from one host to another are blocked now.
func (n *network) isSevered(from, to int) bool {
	return slices.ContainsFunc(n.severed, func(p *partition) bool { return p.isSevered(from, to) })
}

// startPartition begins a partition. endPartition ends it, and blocked messages arrive.
func (n *network) startPartition(p *partition) { n.severed = append(n.severed, p) }

func (n *network) endPartition(p *partition) {
	n.severed = slices.DeleteFunc(n.severed, func(x *partition) bool { return x == p })
	for _, p := range slices.Clone(n.pipes) {
		wake(p.mon)
	}
	wake(n.mon)
}

// packet is the data of one Write, or the end of a connection.
type packet struct {
	b   []byte
	due time.Duration
	end bool
}

// pipe is one direction of a connection.
type pipe struct {
	n        *network
	from, to int // hosts

	mon       env.Monitor // guards the fields below
	flight    []packet
	bytes     int
	broken    bool   // the connection was reset
	left      bool   // the reader has closed it
	ended     bool   // the writer has closed it
	harm      string // fault of the next packet
	spared    bool   // the packet before was spared that
	readUntil time.Duration
	sendUntil time.Duration
}

func (n *network) newPipe(from, to int) *pipe {
	p := &pipe{n: n, from: from, to: to, mon: n.home.Monitor(fmt.Sprintf("connection from host %d to host %d", from, to)),
		readUntil: never, sendUntil: never}
	n.pipes = append(n.pipes, p)
	return p
}

func (p *pipe) readBytes(b []byte) (int, error) {
	p.mon.Lock()
	defer p.mon.Unlock()
	for {
		now, until := p.n.s.Now(), p.readUntil
		switch {
		case p.left:
			return 0, net.ErrClosed
		case p.broken:
			return 0, syscall.ECONNRESET
		case len(p.flight) > 0 && p.flight[0].due > now:
			until = min(until, p.flight[0].due)
		case len(p.flight) > 0 && !p.n.isSevered(p.from, p.to):
			return p.takeBytes(b)
		}
		if p.readUntil <= now {
			return 0, os.ErrDeadlineExceeded
		}
		waitUntil(p.mon, until)
	}
}

// takeBytes reads from the first packet.
func (p *pipe) takeBytes(b []byte) (int, error) {
	first := &p.flight[0]
	if first.end {
		return 0, io.EOF
	}
	k := copy(b, first.b)
	p.bytes -= k
	if first.b = first.b[k:]; len(first.b) == 0 {
		p.flight = slices.Delete(p.flight, 0, 1)
	}
	p.mon.Wake()
	return k, nil
}

func (p *pipe) writeBytes(b []byte) (int, error) {
	p.mon.Lock()
	defer p.mon.Unlock()
	for {
		switch {
		case p.ended:
			return 0, net.ErrClosed
		case p.broken, p.left && !p.n.isSevered(p.to, p.from):
			return 0, syscall.EPIPE
		case p.bytes < maxInFlight:
			p.addPacket(packet{b: slices.Clone(b)})
			p.mon.Wake()
			return len(b), nil
		case p.sendUntil <= p.n.s.Now():
			return 0, os.ErrDeadlineExceeded
		}
		waitUntil(p.mon, p.sendUntil)
	}
}

// addPacket sends a packet, with a fault if one is set.
func (p *pipe) addPacket(x packet) {
	if len(x.b) == 0 && !x.end {
		return
	}
	x.due = p.n.s.Now() + p.n.slow[p.from] + p.n.slow[p.to]
	if n := len(p.flight); n > 0 {
		x.due = max(x.due, p.flight[n-1].due)
	}
	harm := p.harm
	if !x.end {
		p.harm = ""
	}
	switch {
	case x.end || harm == "":
	case harm == dropPacket:
		return
	case harm == corruptPacket && !p.spared && p.n.draw.IntN(2) == 0: // the payload of a frame follows its header at once
		p.harm, p.spared = harm, true
	case harm == corruptPacket:
		p.spared = false
		x.b[p.n.draw.IntN(len(x.b))] ^= 1 << p.n.draw.IntN(8)
	case harm == duplicatePacket: // with the one before it, if that has not arrived: a frame's header
		p.flight = append(p.flight, x)
		again := slices.Clone(p.flight[max(0, len(p.flight)-2):])
		p.flight = append(p.flight, again...)
		for _, y := range again {
			p.bytes += len(y.b)
		}
		p.bytes += len(x.b)
		return
	}
	p.flight = append(p.flight, x)
	p.bytes += len(x.b)
}

// endWrites closes the writer's side, endReads the reader's side.
func (p *pipe) endWrites() {
	p.mon.Lock()
	defer p.mon.Unlock()
	if !p.ended {
		p.ended = true
		p.addPacket(packet{end: true})
		p.mon.Wake()
	}
}

func (p *pipe) endReads() {
	p.mon.Lock()
	p.left = true
	p.flight, p.bytes = nil, 0
	p.mon.Wake()
	p.mon.Unlock()
	p.n.pipes = slices.DeleteFunc(p.n.pipes, func(x *pipe) bool { return x == p })
}

func (p *pipe) breakPipe() {
	p.mon.Lock()
	p.broken = true
	p.mon.Wake()
	p.mon.Unlock()
}

// netProcess is a process from the view of the network.
type netProcess struct {
	*virtual.Process
	hostNumber int
	addr       string // on which it listens
	conns      []*conn
}

// conn is one end of a connection.
type conn struct {
	in, out *pipe
	of      *netProcess
}

func (c *conn) Read(b []byte) (int, error)  { return c.in.readBytes(b) }
func (c *conn) Write(b []byte) (int, error) { return c.out.writeBytes(b) }
func (c *conn) LocalAddr() net.Addr         { return address("") }
func (c *conn) RemoteAddr() net.Addr        { return address("") }

func (c *conn) CloseWrite() error {
	c.out.endWrites()
	return nil
}

func (c *conn) Close() error {
	c.out.endWrites()
	c.in.endReads()
	c.of.conns = slices.DeleteFunc(c.of.conns, func(x *conn) bool { return x == c })
	return nil
}

// dropSilently ends a connection as a power loss does: the peer is not notified.
func (c *conn) dropSilently() {
	c.out.mon.Lock()
	c.out.ended = true
	c.out.mon.Wake()
	c.out.mon.Unlock()
	c.in.endReads()
}

// resetConn breaks a connection, at both ends.
func (c *conn) resetConn() {
	c.in.breakPipe()
	c.out.breakPipe()
}

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error  { return c.in.setDeadline(&c.in.readUntil, t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.out.setDeadline(&c.out.sendUntil, t) }

func (p *pipe) setDeadline(until *time.Duration, t time.Time) error {
	p.mon.Lock()
	*until = virtualTime(t)
	p.mon.Wake()
	p.mon.Unlock()
	return nil
}

// listener is the listening socket of a process.
type listener struct {
	n       *network
	of      *netProcess
	addr    string
	mon     env.Monitor // guards the fields below
	pending []*conn
	closed  bool
	until   time.Duration
}

// maxPending limits the connections that wait to be accepted.
const maxPending = 64

func (n *network) newListener(p *netProcess) *listener {
	d := &listener{n: n, of: p, addr: p.addr, mon: p.Monitor("listener"), until: never}
	n.listeners[d.addr] = d
	wake(n.mon)
	return d
}

func (d *listener) Accept() (net.Conn, error) {
	d.mon.Lock()
	defer d.mon.Unlock()
	for {
		switch {
		case d.closed:
			return nil, net.ErrClosed
		case d.until <= d.n.s.Now():
			return nil, os.ErrDeadlineExceeded
		case len(d.pending) > 0:
			c := d.pending[0]
			d.pending = d.pending[1:]
			return c, nil
		}
		waitUntil(d.mon, d.until)
	}
}

func (d *listener) Close() error {
	d.mon.Lock()
	d.closed = true
	pending := d.pending
	d.pending = nil
	d.mon.Wake()
	d.mon.Unlock()
	for _, c := range pending {
		_ = c.Close()
	}
	if d.n.listeners[d.addr] == d {
		delete(d.n.listeners, d.addr)
	}
	return nil
}

func (d *listener) Addr() net.Addr { return address(d.addr) }

func (d *listener) SetDeadline(t time.Time) error {
	d.mon.Lock()
	d.until = virtualTime(t)
	d.mon.Wake()
	d.mon.Unlock()
	return nil
}

// dialHost connects a process with the listener at an address on a host.
func (n *network) dialHost(p *netProcess, host int, addr string, limit time.Duration) (net.Conn, error) {
	until := n.s.Now() + limit
	n.mon.Lock()
	defer n.mon.Unlock()
	for n.s.Now() < until && !p.Dead {
		if d := n.listeners[addr]; !n.down[host] && !n.isSevered(p.hostNumber, host) && !n.isSevered(host, p.hostNumber) {
			if d == nil || len(d.pending) == maxPending {
				return nil, syscall.ECONNREFUSED
			}
			there, back := n.newPipe(p.hostNumber, host), n.newPipe(host, p.hostNumber)
			mine, theirs := &conn{in: back, out: there, of: p}, &conn{in: there, out: back, of: d.of}
			p.conns, d.of.conns = append(p.conns, mine), append(d.of.conns, theirs)
			d.pending = append(d.pending, theirs)
			wake(d.mon)
			return mine, nil
		}
		n.mon.WaitUntil(until)
	}
	return nil, os.ErrDeadlineExceeded
}
