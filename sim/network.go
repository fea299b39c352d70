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
)

// maxInFlight is how many bytes a connection holds in one direction: who writes more
// waits.
const maxInFlight = 256 << 10

// epoch is virtual time 0 as sockets see it.
var epoch = time.Unix(1_000_000_000, 0)

// network is the connections between machines: what package transport's framing runs
// on, in place of TCP. Bytes come in order and once, but for what harm does to packets.
type network struct {
	s     *scheduler
	draw  *rand.Rand
	home  *node
	mon   env.Monitor // of who dials
	pipes []*pipe     // that somebody may read yet
	doors map[string]*door
	down  map[int]bool // machines without power

	severed []*partition
	slow    map[int]time.Duration // by machine: how much longer its bytes take
}

func newNetwork(s *scheduler, home *node, seed uint64) *network {
	return &network{s: s, home: home, draw: rand.New(rand.NewPCG(seed, purposeNetwork)), mon: home.Monitor("dial"),
		doors: map[string]*door{}, down: map[int]bool{}, slow: map[int]time.Duration{}}
}

// atRegister stands for the register among machines.
const atRegister = -1

// partition keeps bytes between some machines and all others from coming.
type partition struct {
	machines []int // atRegister may be one
	out, in  bool  // which way
	register bool  // they do not reach the register; all else they do
}

func (p *partition) severs(from, to int) bool {
	if p.register && from != atRegister && to != atRegister {
		return false
	}
	a, b := slices.Contains(p.machines, from), slices.Contains(p.machines, to)
	return a && !b && p.out || b && !a && p.in
}

// severs reports whether nothing comes from one machine to another now.
func (n *network) severs(from, to int) bool {
	return slices.ContainsFunc(n.severed, func(p *partition) bool { return p.severs(from, to) })
}

// sever begins a partition, heal ends it: what was on its way then comes.
func (n *network) sever(p *partition) { n.severed = append(n.severed, p) }

func (n *network) heal(p *partition) {
	n.severed = slices.DeleteFunc(n.severed, func(x *partition) bool { return x == p })
	for _, p := range slices.Clone(n.pipes) {
		wake(p.mon)
	}
	wake(n.mon)
}

func wake(m env.Monitor) {
	m.Lock()
	m.Wake()
	m.Unlock()
}

// packet is what one Write gave, or its end of a connection.
type packet struct {
	b   []byte
	due time.Duration
	end bool
}

// pipe is one direction of a connection.
type pipe struct {
	n        *network
	from, to int // machines

	mon       env.Monitor // guards what follows
	flight    []packet
	bytes     int
	broken    bool   // nothing comes any more
	left      bool   // the reader has closed it
	ended     bool   // the writer has
	harm      string // what happens to the next packet
	readUntil time.Duration
	sendUntil time.Duration
}

func (n *network) pipe(from, to int) *pipe {
	p := &pipe{n: n, from: from, to: to, mon: n.home.Monitor(fmt.Sprintf("bytes from machine %d to machine %d", from, to)), readUntil: never, sendUntil: never}
	n.pipes = append(n.pipes, p)
	return p
}

func (p *pipe) read(b []byte) (int, error) {
	p.mon.Lock()
	defer p.mon.Unlock()
	for {
		now, until := p.n.s.now, p.readUntil
		switch {
		case p.left:
			return 0, net.ErrClosed
		case p.broken:
			return 0, syscall.ECONNRESET
		case len(p.flight) > 0 && p.flight[0].due > now:
			until = min(until, p.flight[0].due)
		case len(p.flight) > 0 && !p.n.severs(p.from, p.to):
			return p.take(b)
		}
		if p.readUntil <= now {
			return 0, os.ErrDeadlineExceeded
		}
		waitUntil(p.mon, until)
	}
}

func waitUntil(m env.Monitor, until time.Duration) {
	if until == never {
		m.Wait()
	} else {
		m.WaitUntil(until)
	}
}

// take reads of the first packet.
func (p *pipe) take(b []byte) (int, error) {
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

func (p *pipe) write(b []byte) (int, error) {
	p.mon.Lock()
	defer p.mon.Unlock()
	for {
		switch {
		case p.ended:
			return 0, net.ErrClosed
		case p.broken, p.left && !p.n.severs(p.to, p.from):
			return 0, syscall.EPIPE
		case p.bytes < maxInFlight:
			p.add(packet{b: slices.Clone(b)})
			p.mon.Wake()
			return len(b), nil
		case p.sendUntil <= p.n.s.now:
			return 0, os.ErrDeadlineExceeded
		}
		waitUntil(p.mon, p.sendUntil)
	}
}

// add has a packet go, and harm happen to it.
func (p *pipe) add(x packet) {
	if len(x.b) == 0 && !x.end {
		return
	}
	x.due = p.n.s.now + p.n.slow[p.from] + p.n.slow[p.to]
	if n := len(p.flight); n > 0 {
		x.due = max(x.due, p.flight[n-1].due)
	}
	harm := p.harm
	if !x.end {
		p.harm = ""
	}
	switch {
	case x.end || harm == "":
	case harm == "lost":
		return
	case harm == "garbled":
		x.b[p.n.draw.IntN(len(x.b))] ^= 1 << p.n.draw.IntN(8)
	case harm == "repeated": // with the one before it, if that is on its way yet: a frame's header
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

// end says that nothing more is written; leave that nothing more is read.
func (p *pipe) end() {
	p.mon.Lock()
	defer p.mon.Unlock()
	if !p.ended {
		p.ended = true
		p.add(packet{end: true})
		p.mon.Wake()
	}
}

func (p *pipe) leave() {
	p.mon.Lock()
	p.left = true
	p.flight, p.bytes = nil, 0
	p.mon.Wake()
	p.mon.Unlock()
	p.n.pipes = slices.DeleteFunc(p.n.pipes, func(x *pipe) bool { return x == p })
}

func (p *pipe) fail() {
	p.mon.Lock()
	p.broken = true
	p.mon.Wake()
	p.mon.Unlock()
}

// conn is one end of a connection.
type conn struct {
	in, out *pipe
	of      *process
}

func (c *conn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *conn) Write(b []byte) (int, error) { return c.out.write(b) }
func (c *conn) LocalAddr() net.Addr         { return address("") }
func (c *conn) RemoteAddr() net.Addr        { return address("") }

func (c *conn) CloseWrite() error {
	c.out.end()
	return nil
}

func (c *conn) Close() error {
	c.out.end()
	c.in.leave()
	c.of.conns = slices.DeleteFunc(c.of.conns, func(x *conn) bool { return x == c })
	return nil
}

// vanish ends a connection as a machine without power does: nobody hears of it.
func (c *conn) vanish() {
	c.out.mon.Lock()
	c.out.ended = true
	c.out.mon.Wake()
	c.out.mon.Unlock()
	c.in.leave()
}

// reset breaks a connection, at both ends.
func (c *conn) reset() {
	c.in.fail()
	c.out.fail()
}

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error  { return c.in.set(&c.in.readUntil, t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.out.set(&c.out.sendUntil, t) }

func (p *pipe) set(until *time.Duration, t time.Time) error {
	p.mon.Lock()
	*until = virtual(t)
	p.mon.Wake()
	p.mon.Unlock()
	return nil
}

// virtual is a deadline of a socket in virtual time.
func virtual(t time.Time) time.Duration {
	if t.IsZero() {
		return never
	}
	return t.Sub(epoch)
}

type address string

func (a address) Network() string { return "sim" }
func (a address) String() string  { return string(a) }

// door is where a process listens.
type door struct {
	n     *network
	of    *process
	addr  string
	mon   env.Monitor // guards what follows
	came  []*conn
	shut  bool
	until time.Duration
}

// maxCame bounds the connections that wait to be accepted.
const maxCame = 64

func (n *network) listen(p *process) *door {
	d := &door{n: n, of: p, addr: p.addr(), mon: p.Monitor("listener"), until: never}
	n.doors[d.addr] = d
	wake(n.mon)
	return d
}

func (d *door) Accept() (net.Conn, error) {
	d.mon.Lock()
	defer d.mon.Unlock()
	for {
		switch {
		case d.shut:
			return nil, net.ErrClosed
		case d.until <= d.n.s.now:
			return nil, os.ErrDeadlineExceeded
		case len(d.came) > 0:
			c := d.came[0]
			d.came = d.came[1:]
			return c, nil
		}
		waitUntil(d.mon, d.until)
	}
}

func (d *door) Close() error {
	d.mon.Lock()
	d.shut = true
	came := d.came
	d.came = nil
	d.mon.Wake()
	d.mon.Unlock()
	for _, c := range came {
		_ = c.Close()
	}
	if d.n.doors[d.addr] == d {
		delete(d.n.doors, d.addr)
	}
	return nil
}

func (d *door) Addr() net.Addr { return address(d.addr) }

func (d *door) SetDeadline(t time.Time) error {
	d.mon.Lock()
	d.until = virtual(t)
	d.mon.Wake()
	d.mon.Unlock()
	return nil
}

// dial connects a process with who listens on a machine.
func (n *network) dial(p *process, machine int, addr string, limit time.Duration) (net.Conn, error) {
	until := n.s.now + limit
	n.mon.Lock()
	defer n.mon.Unlock()
	for n.s.now < until && !p.dead {
		if d := n.doors[addr]; !n.down[machine] && !n.severs(p.on.number, machine) && !n.severs(machine, p.on.number) {
			if d == nil || len(d.came) == maxCame {
				return nil, syscall.ECONNREFUSED
			}
			there, back := n.pipe(p.on.number, machine), n.pipe(machine, p.on.number)
			mine, theirs := &conn{in: back, out: there, of: p}, &conn{in: there, out: back, of: d.of}
			p.conns, d.of.conns = append(p.conns, mine), append(d.of.conns, theirs)
			d.came = append(d.came, theirs)
			wake(d.mon)
			return mine, nil
		}
		n.mon.WaitUntil(until)
	}
	return nil, os.ErrDeadlineExceeded
}
