package transport

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ecrec/ecrec/internal/arena"
)

const (
	// ringBytes is the size of a ring: small enough to stay in a core's cache.
	ringBytes = 256 << 10
	// publishBytes is the number of bytes copied before the other side may start to read
	// them.
	publishBytes = 16 << 10

	ringsOffset  = 4096
	segmentBytes = ringsOffset + 2*ringBytes
)

// shm is the shared memory of a link: a ring in each direction, and a doorbell for each
// side. It belongs to one pair of processes in one generation. It has no name, so that it
// cannot outlive them.
//
// Each direction has a token, and its holder copies. Senders, Wait and serveRings all try
// to take it; serveRings sleeps on the doorbell when no goroutine polls. A side arms its
// doorbell when it wants to be woken. The other side disarms and rings it when it
// publishes bytes, or makes room for a starved writer. Every waiter checks again after
// arming, and every token holder after returning the token, so that no ring is missed.
type shm struct {
	*segment
	link *link

	out, in          ring
	mine, theirs     *atomic.Uint32 // armed: that side wants to be woken
	self, other      sideRecord
	view             *arena.View // the peer's arena; nil if there is none
	viewBase         uint64      // address of the arena in the peer
	outToken         atomic.Bool
	inToken          atomic.Bool
	asleep           atomic.Bool  // serveRings waits for the doorbell
	refs             atomic.Int32 // of mem; it is unmapped at 0
	current          frame        // guarded by outToken, as are the fields below
	have             atomic.Bool  // current is not completely written; set under outToken
	done             int          // bytes of current that are in the ring
	published, taken uint64
	freed            uint64 // out.tail when last read: reading it costs a cache miss
}

// ring is a byte queue; one side writes, the other reads.
type ring struct {
	head, tail *atomic.Uint64 // total bytes written and read
	starved    *atomic.Uint32 // the writer waits for room
	data       []byte
}

// segment is the memory of a shm, and the pipes by which its sides wake each other.
type segment struct {
	mem []byte
	bells
}

// newShm lays out the rings in a segment. creator is true on the side that made it.
func newShm(l *link, g *segment, creator bool) *shm {
	mem := g.mem
	word := func(line int) unsafe.Pointer { return unsafe.Pointer(&mem[line*64]) }
	at := func(direction int) ring {
		line := 4 * direction
		off := ringsOffset + direction*ringBytes
		return ring{
			head: (*atomic.Uint64)(word(line)), tail: (*atomic.Uint64)(word(line + 1)), starved: (*atomic.Uint32)(word(line + 2)),
			data: mem[off : off+ringBytes],
		}
	}
	bellOf := func(side int) *atomic.Uint32 { return (*atomic.Uint32)(word(9 + 2*side)) }
	me := 1
	if creator {
		me = 0
	}
	s := &shm{segment: g, link: l, out: at(me), in: at(1 - me), mine: bellOf(me), theirs: bellOf(1 - me),
		self: sideRecordAt(mem, me), other: sideRecordAt(mem, 1-me)}
	s.self.publishSelf(mem)
	s.refs.Store(1)
	return s
}

// acquireMapping keeps mem mapped until releaseMapping. It reports false if mem is
// unmapped.
func (s *shm) acquireMapping() bool {
	for {
		n := s.refs.Load()
		if n == 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (s *shm) releaseMapping() {
	if s.refs.Add(-1) == 0 {
		s.closeSegment()
		if s.view != nil {
			s.view.Close()
		}
	}
}

// releaseOwn releases the link's own reference to mem.
func (s *shm) releaseOwn() { s.releaseMapping() }

// moveAll moves all bytes that can be moved now, in both directions.
func (s *shm) moveAll() {
	if s.acquireMapping() {
		s.pumpIn()
		for s.readNextPiece() {
		}
		s.pumpOut()
		s.releaseMapping()
	}
}

// moveSome does the first of these that moves any bytes: it receives, it reads one piece of
// a direct message, or it sends. It reports whether any bytes were moved.
func (s *shm) moveSome() bool {
	return s.pumpIn() || s.readNextPiece() || s.pumpOut()
}

// ringDoorbell wakes the other side if its doorbell is armed.
func (s *shm) ringDoorbell() {
	if s.theirs.Load() != 0 && s.theirs.CompareAndSwap(1, 0) {
		wake(s.there)
	}
}

func (s *shm) wakeSelf() {
	if s.acquireMapping() {
		wake(s.here)
		s.releaseMapping()
	}
	s.link.world.polling.endNaps()
}

// disarmDoorbell writes only if necessary, because the other side reads that cache line.
func (s *shm) disarmDoorbell() {
	if s.mine.Load() != 0 {
		s.mine.Store(0)
	}
}

// wakeServer wakes serveRings if it sleeps. The caller has acquired the mapping.
func (s *shm) wakeServer() {
	if s.asleep.Load() {
		wake(s.here)
	}
}

// pumpOut writes frames while there are some, and room. It reports whether any bytes were
// moved.
func (s *shm) pumpOut() bool {
	moved := false
	for (s.have.Load() || s.link.queued.Load() > 0) && s.outToken.CompareAndSwap(false, true) {
		moved = s.writeFrames() || moved
		s.outToken.Store(false)
		if s.out.starved.Load() != 0 {
			break // the ring is full, and the reader rings when it makes room
		}
	}
	return moved
}

// writeFrames copies frames into the ring until it is full or there are no more.
func (s *shm) writeFrames() bool {
	moved := false
	for {
		if !s.have.Load() {
			if !s.link.nextFrame(&s.current, false) {
				return moved
			}
			s.have.Store(true)
			s.done = 0
		}
		n := s.writePiece()
		moved = moved || n > 0
		if s.done == headerBytes+len(s.current.payload) {
			s.have.Store(false)
			s.link.frameWritten(&s.current, nil)
			continue
		}
		if n == 0 {
			s.out.starved.Store(1)
			if s.published-s.out.tail.Load() == ringBytes {
				return moved
			}
			s.out.starved.Store(0)
		}
	}
}

// writePiece copies up to publishBytes of the current frame and publishes them.
func (s *shm) writePiece() int {
	left := headerBytes + len(s.current.payload) - s.done
	room := ringBytes - int(s.published-s.freed)
	if room < min(left, publishBytes) {
		s.freed = s.out.tail.Load()
		room = ringBytes - int(s.published-s.freed)
	}
	n := 0
	for n < publishBytes && room > 0 && s.done < headerBytes+len(s.current.payload) {
		p := s.current.payload[max(s.done-headerBytes, 0):]
		if s.done < headerBytes {
			p = s.current.head[s.done:]
		}
		at := int(s.published % ringBytes)
		c := copy(s.out.data[at:min(at+min(room, publishBytes), ringBytes)], p)
		s.done, s.published = s.done+c, s.published+uint64(c)
		n, room = n+c, room-c
	}
	if n > 0 {
		s.out.head.Store(s.published)
		s.ringDoorbell()
	}
	return n
}

// pumpIn reads the bytes that have arrived. It reports whether any bytes were moved.
func (s *shm) pumpIn() bool {
	moved := false
	for s.in.head.Load() != s.in.tail.Load() && s.inToken.CompareAndSwap(false, true) {
		err := s.readFrames()
		s.inToken.Store(false)
		if err != nil {
			s.link.failWith(err)
			return true
		}
		moved = true
	}
	return moved
}

// readFrames passes the bytes of the ring to the link until there are none.
func (s *shm) readFrames() error {
	in := &s.link.in
	for {
		there := s.in.head.Load() - s.taken
		if there == 0 {
			return nil
		}
		if there > ringBytes {
			return protocolError("a ring of %d bytes holds %d", ringBytes, there)
		}
		at := int(s.taken % ringBytes)
		n := copy(in.nextBuffer(), s.in.data[at:min(at+min(int(there), publishBytes), ringBytes)])
		s.taken += uint64(n)
		s.in.tail.Store(s.taken)
		if s.in.starved.Load() != 0 && s.in.starved.CompareAndSwap(1, 0) {
			s.ringDoorbell()
		}
		if err := in.bytesArrived(n); err != nil {
			return err
		}
	}
}

// serveRings moves bytes when no goroutine polls, until the link is over.
func (s *shm) serveRings() {
	if !s.acquireMapping() {
		return
	}
	defer s.releaseMapping()
	var pollsSeen uint64
	for {
		if s.link.failure() != nil {
			return
		}
		if s.moveSome() {
			runtime.Gosched() // let the goroutines run whose requests have ended
			continue
		}
		if s.link.world.polling.napWhilePolled(&pollsSeen) {
			continue
		}
		s.asleep.Store(true)
		s.mine.Store(1)
		if !s.moveSome() {
			if err := s.link.world.env.Do("wait for a ring", s.sleep); err != nil {
				s.link.failWith(err)
			}
		}
		s.asleep.Store(false)
	}
}

// drainInbound reads the bytes that the peer wrote before it ended.
func (s *shm) drainInbound() {
	for s.in.head.Load() != s.in.tail.Load() && s.link.failure() == nil {
		if !s.pumpIn() {
			s.link.world.env.Sleep(drainPoll)
		}
	}
}

// drainPoll is how long drainInbound waits for another goroutine to return the token.
const drainPoll = 50 * time.Microsecond

// stopRings ends the requests whose bytes were partly transferred, and keeps the tokens.
// The link has failed.
func (s *shm) stopRings() {
	for _, token := range []*atomic.Bool{&s.inToken, &s.outToken} {
		for !token.CompareAndSwap(false, true) {
			s.link.world.env.Sleep(drainPoll)
		}
	}
	s.link.in.abandonReceive()
	if s.have.Load() {
		s.have.Store(false)
		s.link.frameWritten(&s.current, s.link.failure())
	}
}
