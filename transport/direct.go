package transport

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/ecrec/ecrec/internal/arena"
	"github.com/ecrec/ecrec/internal/blockcopy"
)

// Direct reading: if a process can read its peer's memory, an offer carries the address
// of the message. The receiver copies the message from there, once, and sends only the
// frame that confirms it. The peer's arena is mapped in this process. The rest of the
// peer's memory is read by a system call. A sender that gives up an offered message first
// sets a flag in the segment. The receiver checks the flag after it has read. If it
// cannot be sure of the bytes, it asks for them as for any other offer.

const (
	// readBytes is the length of one read between polls of the rings.
	readBytes = 256 << 10
	// addressBytes is the length of the payload of such an offer.
	addressBytes = 8
)

// sideRecord is the part of the segment in which one side publishes facts about itself.
type sideRecord struct {
	pid, secret *atomic.Uint64 // its process; the address of the segment's secret there
	reads       *atomic.Uint32 // it can read the other side's memory
	withdrawn   *atomic.Uint32 // it gave up a message that it had offered with an address
	arena       arenaEntry
	views       *atomic.Uint32 // it has mapped the other side's arena
}

// arenaEntry locates a side's arena, and where that side has mapped it. Its length is 0
// if there is none.
type arenaEntry struct {
	fd, bytes, base *atomic.Uint64
	id              []byte
}

const sideRecordLine = 12 // of the first side

func sideRecordAt(mem []byte, side int) sideRecord {
	word := func(n int) unsafe.Pointer { return unsafe.Pointer(&mem[(sideRecordLine+2*side)*64+8*n]) }
	return sideRecord{pid: (*atomic.Uint64)(word(0)), secret: (*atomic.Uint64)(word(1)),
		reads: (*atomic.Uint32)(word(2)), views: (*atomic.Uint32)(word(3)), withdrawn: (*atomic.Uint32)(word(8)),
		arena: arenaEntry{fd: (*atomic.Uint64)(word(4)), bytes: (*atomic.Uint64)(word(5)), base: (*atomic.Uint64)(word(6)),
			id: unsafe.Slice((*byte)(word(9)), len(arena.Name{}.ID))}}
}

// publishSelf writes this side's record.
func (d *sideRecord) publishSelf(mem []byte) {
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

// probePeer determines whether this side can read the memory of the other, which has
// published its record.
func (s *shm) probePeer() {
	if s.link.world.noDirectReads {
		return
	}
	if s.readPeer(nil, 0, 0) {
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

// readPeer copies len(p) bytes from an address of the peer; all is the length of the
// message. Bytes outside the peer's arena are read by a system call, which also reads the
// secret of the segment, because only the peer has it at that address. readPeer reports
// false if the bytes may be another process's, or could not be read.
func (s *shm) readPeer(p []byte, address uint64, all int) bool {
	if there := s.view.Bytes(int64(address-s.viewBase), len(p)); len(there) > 0 {
		blockcopy.Copy(p, there, all)
		return true
	}
	var secret [secretBytes]byte
	ok := readMemory(int(s.other.pid.Load()), p, uintptr(address), secret[:], uintptr(s.other.secret.Load()))
	return ok && secret == [secretBytes]byte(s.mem[secretOffset:])
}

// canReadDirect reports whether the peer can read a message directly. The caller holds
// the link's monitor, which keeps the segment mapped while the link works.
func (l *link) canReadDirect(p []byte) bool {
	return l.err == nil && l.ring != nil && l.ring.self.withdrawn.Load() == 0 &&
		(l.ring.other.reads.Load() != 0 || l.ring.isViewed(p))
}

// isViewed reports whether p is in memory that the peer has mapped.
func (s *shm) isViewed(p []byte) bool {
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

// eagerLimit returns the length up to which b is sent eagerly, which copies it twice,
// instead of being offered and copied once. The caller holds the monitor.
func (l *link) eagerLimit(b []byte) int {
	if l.engine != nil {
		return packedBytes
	}
	if len(b) > nearEagerBytes && l.ring != nil && l.err == nil && l.ring.isViewed(b) {
		return nearEagerBytes
	}
	return eagerBytes
}

// withdrawOffer must be called before the memory of a direct offer is released. The
// caller holds the monitor.
func (l *link) withdrawOffer(r *netRequest) {
	if r.direct && l.ring.acquireMapping() {
		l.ring.self.withdrawn.Store(1)
		l.ring.releaseMapping()
	}
}

// offerOf returns the header and payload that offer r. The caller holds the monitor.
func (l *link) offerOf(r *netRequest) (h header, payload []byte) {
	h = header{kind: frameOffer, from: uint32(r.pair.local), to: uint32(r.pair.remote), tag: r.tag, id: r.id, arg: uint64(len(r.p))}
	if len(r.p) > 0 && l.canReadDirect(r.p) {
		r.direct = true
		binary.LittleEndian.PutUint64(r.address[:], uint64(addressOf(r.p)))
		payload = r.address[:]
	}
	return h, payload
}

// readLater queues r, whose message is at an address of the peer, to be read. The caller
// holds the monitor.
func (l *link) readLater(r *netRequest, id, address uint64) {
	r.id, r.from = id, address
	l.reads.push(r)
	l.reading.Store(int64(l.reads.len()))
}

// readNextPiece reads a piece of a message. It reports whether there was one.
func (s *shm) readNextPiece() bool {
	l := s.link
	if l.reading.Load() == 0 {
		return false
	}
	l.mon.Lock()
	if l.reads.len() == 0 {
		l.mon.Unlock()
		return false
	}
	r := l.reads.pop()
	l.reading.Store(int64(l.reads.len()))
	r.moving = true
	l.mon.Unlock()

	n := min(readBytes, len(r.p)-r.off)
	ok := s.readPeer(r.p[r.off:r.off+n], r.from+uint64(r.off), len(r.p))

	l.mon.Lock()
	defer l.mon.Unlock()
	r.moving = false
	r.off += n
	// An atomic addition keeps the check after the reads, on every processor.
	ok = ok && (r.off < len(r.p) || s.other.withdrawn.Add(0) == 0)
	switch {
	case r.pair.err != nil:
		r.endWith(r.pair.err)
	case !ok:
		r.off = 0
		l.askFor(r, r.id)
	case r.off < len(r.p):
		l.readLater(r, r.id, r.from)
	default:
		l.addControl(header{kind: frameDone, from: uint32(r.pair.local), to: uint32(r.pair.remote), id: r.id}, nil)
		r.endWith(nil)
	}
	return true
}
