package transport

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ecrec/ecrec/internal/arena"
)

const (
	// ringBytes is what a ring holds: little enough to stay in a core's cache.
	ringBytes = 256 << 10
	// publishBytes is how much is copied before the other side may begin with it.
	publishBytes = 16 << 10

	ringsOffset  = 4096
	segmentBytes = ringsOffset + 2*ringBytes
)

// shm is a link's shared memory: a ring in each direction, and for each side a
// bell. It belongs to one pair of processes in one generation, and has no name
// that could outlive them.
//
// Whoever has the token of a direction copies; everyone tries: senders, Wait, and
// serve, which sleeps on the bell when nobody polls. A side is armed when it wants
// the bell; who publishes bytes, or makes room for a starved writer, disarms and
// rings. Every wait looks again after arming, every token holder after giving the
// token back, so that no ring is missed.
type shm struct {
	link *link
	mem  []byte

	out, in          ring
	mine, theirs     *bell
	self, other      directory
	view             *arena.View // the peer's; nil where there is none
	viewBase         uint64      // where the peer has it
	outToken         atomic.Bool
	inToken          atomic.Bool
	asleep           atomic.Bool  // serve waits for the bell
	refs             atomic.Int32 // of mem; it is unmapped at 0
	current          frame        // guarded by outToken, as what follows
	have             atomic.Bool  // current is not all written; set under outToken
	done             int          // bytes of current that are in the ring
	published, taken uint64
	freed            uint64 // out.tail when last seen: reading it costs a cache miss
}

// ring is a byte queue; one side writes, the other reads.
type ring struct {
	head, tail *atomic.Uint64 // bytes written and read, ever
	starved    *atomic.Uint32 // the writer waits for room
	data       []byte
}

type bell struct {
	rings *atomic.Uint32 // futex
	armed *atomic.Uint32
}

// newShm lays the rings out in mem; creator is the side that made it.
func newShm(l *link, mem []byte, creator bool) *shm {
	word := func(line int) unsafe.Pointer { return unsafe.Pointer(&mem[line*64]) }
	at := func(direction int) ring {
		line := 4 * direction
		off := ringsOffset + direction*ringBytes
		return ring{
			head: (*atomic.Uint64)(word(line)), tail: (*atomic.Uint64)(word(line + 1)), starved: (*atomic.Uint32)(word(line + 2)),
			data: mem[off : off+ringBytes],
		}
	}
	bellOf := func(side int) *bell {
		return &bell{rings: (*atomic.Uint32)(word(8 + 2*side)), armed: (*atomic.Uint32)(word(9 + 2*side))}
	}
	me := 1
	if creator {
		me = 0
	}
	s := &shm{link: l, mem: mem, out: at(me), in: at(1 - me), mine: bellOf(me), theirs: bellOf(1 - me),
		self: directoryOf(mem, me), other: directoryOf(mem, 1-me)}
	s.self.introduce(mem)
	s.refs.Store(1)
	return s
}

// enter keeps mem mapped until leave; it reports false when it is gone.
func (s *shm) enter() bool {
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

func (s *shm) leave() {
	if s.refs.Add(-1) == 0 {
		unmapSegment(s.mem)
		if s.view != nil {
			s.view.Close()
		}
	}
}

// release gives up the link's own hold on mem.
func (s *shm) release() { s.leave() }

// pump moves what can be moved now, in both directions.
func (s *shm) pump() {
	if s.enter() {
		s.pumpIn()
		for s.readOn() {
		}
		s.pumpOut()
		s.leave()
	}
}

// move moves what can be moved now, at most one piece that is read among it. It
// reports whether there was something to read, or bytes came or, where none came,
// went.
func (s *shm) move() bool {
	return s.pumpIn() || s.readOn() || s.pumpOut()
}

// ring wakes the other side if it wants that.
func (s *shm) ring() {
	if s.theirs.armed.Load() != 0 && s.theirs.armed.CompareAndSwap(1, 0) {
		s.theirs.rings.Add(1)
		futexWake(s.theirs.rings)
	}
}

func (s *shm) wakeSelf() {
	if s.enter() {
		s.mine.rings.Add(1)
		futexWake(s.mine.rings)
		s.leave()
	}
	s.link.world.polling.wake()
}

// disarm writes only where it must: the other side reads that line.
func (s *shm) disarm() {
	if s.mine.armed.Load() != 0 {
		s.mine.armed.Store(0)
	}
}

// rouse makes serve look around if it sleeps. The caller has entered.
func (s *shm) rouse() {
	if s.asleep.Load() {
		s.mine.rings.Add(1)
		futexWake(s.mine.rings)
	}
}

// pumpOut writes frames while there are some, and room. It reports whether any
// bytes moved.
func (s *shm) pumpOut() bool {
	moved := false
	for (s.have.Load() || s.link.queued.Load() > 0) && s.outToken.CompareAndSwap(false, true) {
		moved = s.fill() || moved
		s.outToken.Store(false)
		if s.out.starved.Load() != 0 {
			break // the ring is full, and who makes room rings
		}
	}
	return moved
}

// fill copies frames into the ring until one of them ends.
func (s *shm) fill() bool {
	moved := false
	for {
		if !s.have.Load() {
			if !s.link.next(&s.current) {
				return moved
			}
			s.have.Store(true)
			s.done = 0
		}
		n := s.write()
		moved = moved || n > 0
		if s.done == headerBytes+len(s.current.payload) {
			s.have.Store(false)
			s.link.written(&s.current, nil)
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

// write copies up to publishBytes of the current frame and publishes them.
func (s *shm) write() int {
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
		s.ring()
	}
	return n
}

// pumpIn takes what has arrived. It reports whether any bytes moved.
func (s *shm) pumpIn() bool {
	moved := false
	for s.in.head.Load() != s.in.tail.Load() && s.inToken.CompareAndSwap(false, true) {
		err := s.take()
		s.inToken.Store(false)
		if err != nil {
			s.link.fail(err)
			return true
		}
		moved = true
	}
	return moved
}

// take hands bytes of the ring to the link until there are none.
func (s *shm) take() error {
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
		n := copy(in.want(), s.in.data[at:min(at+min(int(there), publishBytes), ringBytes)])
		s.taken += uint64(n)
		s.in.tail.Store(s.taken)
		if s.in.starved.Load() != 0 && s.in.starved.CompareAndSwap(1, 0) {
			s.ring()
		}
		if err := in.got(n); err != nil {
			return err
		}
	}
}

// serve moves bytes when nobody polls, until the link is over.
func (s *shm) serve() {
	if !s.enter() {
		return
	}
	defer s.leave()
	var seen uint32
	var pollsSeen uint64
	sleep := func() error {
		futexWait(s.mine.rings, seen)
		return nil
	}
	for {
		seen = s.mine.rings.Load()
		if s.link.failed() != nil {
			return
		}
		if s.move() {
			runtime.Gosched() // let those run whose requests have ended
			continue
		}
		if s.link.world.polling.doze(&pollsSeen) {
			continue
		}
		s.asleep.Store(true)
		s.mine.armed.Store(1)
		if !s.move() {
			_ = s.link.world.env.Do("wait for a ring", sleep)
		}
		s.asleep.Store(false)
	}
}

// drain takes what the peer wrote before it went.
func (s *shm) drain() {
	for s.in.head.Load() != s.in.tail.Load() && s.link.failed() == nil {
		if !s.pumpIn() {
			s.link.world.env.Sleep(drainPoll)
		}
	}
}

// drainPoll is how long drain leaves the token to another goroutine.
const drainPoll = 50 * time.Microsecond

// stop ends the requests whose bytes stood in the middle of a ring, and leaves it
// to nobody. The link has failed.
func (s *shm) stop() {
	for _, token := range []*atomic.Bool{&s.inToken, &s.outToken} {
		for !token.CompareAndSwap(false, true) {
			s.link.world.env.Sleep(drainPoll)
		}
	}
	s.link.in.abandon()
	if s.have.Load() {
		s.have.Store(false)
		s.link.written(&s.current, s.link.failed())
	}
}
