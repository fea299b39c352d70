package transport

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/ecrec/ecrec/internal/arena"
	"github.com/ecrec/ecrec/internal/blockcopy"
)

// Direct reading: where a process can read its peer's memory, an offer says where
// the message lies, and its receiver copies it from there, once, with no other
// frame than the one that says that it is done. What lies in the peer's arena is
// mapped here; the rest of its memory is read with the system's help. Who offered
// a message and gives it up first says so in the segment; a receiver looks there
// after it has read, and if it cannot be sure of the bytes it asks for them as of
// any other offer.

const (
	// readBytes is how much is read at once, between looks at the rings.
	readBytes = 256 << 10
	// addressBytes is what the payload of such an offer holds.
	addressBytes = 8
)

// directory is what a side says of itself in the segment.
type directory struct {
	pid, secret *atomic.Uint64 // its process; where it has mapped the segment's secret
	reads       *atomic.Uint32 // it can read the other side's memory
	withdrawn   *atomic.Uint32 // it gave up a message that it had offered with an address
	arena       arenaEntry
	views       *atomic.Uint32 // it has mapped the other side's arena
}

// arenaEntry says where a side's arena is found, and where that side has it mapped.
// Its length is 0 where there is none.
type arenaEntry struct {
	fd, bytes, base *atomic.Uint64
	id              []byte
}

const directoryLine = 12 // of the first side

func directoryOf(mem []byte, side int) directory {
	word := func(n int) unsafe.Pointer { return unsafe.Pointer(&mem[(directoryLine+2*side)*64+8*n]) }
	return directory{pid: (*atomic.Uint64)(word(0)), secret: (*atomic.Uint64)(word(1)),
		reads: (*atomic.Uint32)(word(2)), views: (*atomic.Uint32)(word(3)), withdrawn: (*atomic.Uint32)(word(8)),
		arena: arenaEntry{fd: (*atomic.Uint64)(word(4)), bytes: (*atomic.Uint64)(word(5)), base: (*atomic.Uint64)(word(6)),
			id: unsafe.Slice((*byte)(word(9)), len(arena.Name{}.ID))}}
}

// introduce says where this side's memory is to be found.
func (d *directory) introduce(mem []byte) {
	d.pid.Store(uint64(processID()))
	d.secret.Store(uint64(addressOf(mem[secretOffset:])))
	a, err := arena.Own()
	if err != nil {
		return
	}
	name := a.Name()
	copy(d.arena.id, name.ID[:])
	d.arena.fd.Store(name.FD)
	d.arena.base.Store(uint64(addressOf(a.View().Bytes(0, 1))))
	d.arena.bytes.Store(name.Bytes)
}

func addressOf(p []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(p))) }

// probe finds out whether this side can read the other's memory, which has
// introduced itself.
func (s *shm) probe() {
	if s.link.world.apart {
		return
	}
	if s.read(nil, 0, 0) {
		s.self.reads.Store(1)
	}
	e := &s.other.arena
	name := arena.Name{PID: s.other.pid.Load(), FD: e.fd.Load(), Bytes: e.bytes.Load(), ID: [32]byte(e.id)}
	if name.Bytes == 0 {
		return
	}
	if view, err := arena.Open(name); err == nil {
		s.view, s.viewBase = view, e.base.Load()
		s.self.views.Store(1)
	}
}

// read copies len(p) bytes of a message of so many from an address of the peer. Of
// what its arena does not hold it then reads the secret of the segment, which only the
// peer has there: it reports false if the bytes may be another process's, or did not
// come.
func (s *shm) read(p []byte, address uint64, all int) bool {
	if there := s.view.Bytes(int64(address-s.viewBase), len(p)); len(there) > 0 {
		blockcopy.Copy(p, there, all)
		return true
	}
	var secret [secretBytes]byte
	ok := readMemory(int(s.other.pid.Load()), p, uintptr(address), secret[:], uintptr(s.other.secret.Load()))
	return ok && secret == [secretBytes]byte(s.mem[secretOffset:])
}

// readable reports whether the peer can be told where a message lies. The caller
// holds the link's monitor, which keeps the segment mapped while the link works.
func (l *link) readable(p []byte) bool {
	return l.err == nil && l.ring != nil && l.ring.self.withdrawn.Load() == 0 &&
		(l.ring.other.reads.Load() != 0 || l.ring.viewed(p))
}

// viewed reports whether p lies where the peer has it mapped.
func (s *shm) viewed(p []byte) bool {
	if s.other.views.Load() == 0 {
		return false
	}
	a, err := arena.Own()
	if err != nil {
		return false
	}
	_, ok := a.Offset(p)
	return ok
}

// eagerLimit is how long b may be to be copied twice at once, rather than once when
// it is wanted. The caller holds the monitor.
func (l *link) eagerLimit(b []byte) int {
	if l.carrier != nil {
		return packedBytes
	}
	if len(b) > nearEagerBytes && l.ring != nil && l.err == nil && l.ring.viewed(b) {
		return nearEagerBytes
	}
	return eagerBytes
}

// withdraw is called before the memory of a direct offer is given back. The caller
// holds the monitor.
func (l *link) withdraw(r *netRequest) {
	if r.direct && l.ring.enter() {
		l.ring.self.withdrawn.Store(1)
		l.ring.leave()
	}
}

// offerOf is the header and payload that offer r. The caller holds the monitor.
func (l *link) offerOf(r *netRequest) (h header, payload []byte) {
	h = header{kind: frameOffer, from: uint32(r.pair.local), to: uint32(r.pair.remote), tag: r.tag, id: r.id, arg: uint64(len(r.p))}
	if len(r.p) > 0 && l.readable(r.p) {
		r.direct = true
		binary.LittleEndian.PutUint64(r.address[:], uint64(addressOf(r.p)))
		payload = r.address[:]
	}
	return h, payload
}

// readLater has r, whose message lies at an address of the peer, read. The caller
// holds the monitor.
func (l *link) readLater(r *netRequest, id, address uint64) {
	r.id, r.from = id, address
	l.reads = append(l.reads, r)
	l.reading.Store(int64(len(l.reads)))
}

// readOn reads a piece of a message. It reports whether there was one.
func (s *shm) readOn() bool {
	l := s.link
	if l.reading.Load() == 0 {
		return false
	}
	l.mon.Lock()
	if len(l.reads) == 0 {
		l.mon.Unlock()
		return false
	}
	r := l.reads[0]
	l.reads = slices.Delete(l.reads, 0, 1)
	l.reading.Store(int64(len(l.reads)))
	r.moving = true
	l.mon.Unlock()

	n := min(readBytes, len(r.p)-r.off)
	ok := s.read(r.p[r.off:r.off+n], r.from+uint64(r.off), len(r.p))

	l.mon.Lock()
	defer l.mon.Unlock()
	r.moving = false
	r.off += n
	// An addition orders the look behind the reading, on every processor.
	ok = ok && (r.off < len(r.p) || s.other.withdrawn.Add(0) == 0)
	switch {
	case r.pair.err != nil:
		r.end(r.pair.err)
	case !ok:
		r.off = 0
		l.askFor(r, r.id)
	case r.off < len(r.p):
		l.readLater(r, r.id, r.from)
	default:
		l.addControl(header{kind: frameDone, from: uint32(r.pair.local), to: uint32(r.pair.remote), id: r.id}, nil)
		r.end(nil)
	}
	return true
}
