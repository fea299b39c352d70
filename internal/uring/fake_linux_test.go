package uring

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fake is a kernel that does everything it may: it takes a part of the requests, completes them in any order, reads less than was
// requested, and fails for a while.
type fake struct {
	t        *testing.T
	rnd      *rand.Rand
	ring     *Ring
	base     *byte // of the ring's blocks
	file     []byte
	direct   bool // offsets that are no multiples of a sector are refused
	underWay []request
	most     int // requests under way
	seen     map[string]int

	always   int32      // the result of all reads, unless 0
	refuseAt int        // call that is refused; 0: none is
	refusal  unix.Errno // the error of it and all later ones
	ended    bool
}

const sector = 512

func newFake(t *testing.T, rnd *rand.Rand, file []byte, depth int) *fake {
	k := &fake{t: t, rnd: rnd, file: file, direct: rnd.IntN(2) == 0, seen: map[string]int{}}
	entries := 1
	for entries < depth {
		entries *= 2
	}
	start := rnd.Uint32() // the numbers of entries wrap around
	word := func(n uint32) *uint32 { return &n }
	r, err := newRing(k, queues{word(start), word(start), make([]request, entries), word(start + 7), word(start + 7),
		make([]completion, 2*entries)}, depth)
	if err != nil {
		t.Fatal(err)
	}
	k.ring, k.base = r, &r.blocks[0]
	t.Cleanup(r.Close)
	return k
}

func (k *fake) release() { k.ended = true }

func (k *fake) note(what string) { k.seen[what]++ }

func (k *fake) enter(submit, wait uint32) (int, error) {
	k.note("calls")
	if k.ended {
		k.t.Fatal("a call after the end")
	}
	if k.refuseAt > 0 {
		if k.refuseAt--; k.refuseAt == 0 {
			k.refuseAt = 1
			return 0, k.refusal
		}
	}
	switch k.rnd.IntN(12) {
	case 0:
		k.note("EINTR of a call")
		return 0, unix.EINTR
	case 1:
		if submit > 0 {
			k.note("EAGAIN of a call")
			return 0, unix.EAGAIN
		}
	case 2:
		k.note("EBUSY of a call")
		return 0, unix.EBUSY
	}
	taken := 0
	for n := uint32(k.rnd.IntN(int(submit) + 1)); uint32(taken) < n; taken++ {
		k.take()
	}
	if k.most = max(k.most, len(k.underWay)); k.most > len(k.ring.pieces) {
		k.t.Fatalf("%d requests under way, of %d", k.most, len(k.ring.pieces))
	}
	if len(k.underWay) == 0 {
		return taken, nil
	}
	for range int(wait) + k.rnd.IntN(len(k.underWay)) {
		k.complete()
	}
	return taken, nil
}

// take takes the next request.
func (k *fake) take() {
	r := k.ring
	if head := *r.sqHead; head == atomic.LoadUint32(r.sqTail) {
		k.t.Fatal("more requests are submitted than written")
	}
	e := r.requests[*r.sqHead&uint32(len(r.requests)-1)]
	if e.opcode != opRead || e.fd != 3 || e.length == 0 || k.index(e)+int(e.length) > int(e.user+1)*blockBytes {
		k.t.Fatalf("request %+v", e)
	}
	r.requests[*r.sqHead&uint32(len(r.requests)-1)] = request{}
	atomic.AddUint32(r.sqHead, 1)
	k.underWay = append(k.underWay, e)
}

// index is the place of a request's memory in the blocks.
func (k *fake) index(e request) int {
	return int(e.address - uint64(uintptr(unsafe.Pointer(k.base))))
}

// complete completes a request that is under way.
func (k *fake) complete() {
	if len(k.underWay) == 0 {
		return
	}
	i := k.rnd.IntN(len(k.underWay))
	if i > 0 {
		k.note("out of order")
	}
	e := k.underWay[i]
	k.underWay[i] = k.underWay[len(k.underWay)-1]
	k.underWay = k.underWay[:len(k.underWay)-1]
	r := k.ring
	if *r.cqTail-atomic.LoadUint32(r.cqHead) == uint32(len(r.completions)) {
		k.t.Fatal("the queue of completions overflows")
	}
	r.completions[*r.cqTail&uint32(len(r.completions)-1)] = completion{user: e.user, result: k.read(e)}
	atomic.AddUint32(r.cqTail, 1)
}

// read reads for a request, and returns the result.
func (k *fake) read(e request) int32 {
	if k.always != 0 {
		return k.always
	}
	if k.rnd.IntN(8) == 0 {
		errno := []unix.Errno{unix.EINTR, unix.EAGAIN, unix.ECANCELED}[k.rnd.IntN(3)]
		k.note(unix.ErrnoName(errno) + " of a read")
		return -int32(errno)
	}
	unit := 1
	if k.direct {
		if unit = sector; e.offset%sector != 0 || k.index(e)%sector != 0 || e.length%sector != 0 {
			return -int32(unix.EINVAL)
		}
	}
	if e.offset >= uint64(len(k.file)) {
		return 0
	}
	want := int(e.length)
	if n := want / unit; n > 1 && k.rnd.IntN(3) == 0 {
		k.note("short reads")
		want = unit * (1 + k.rnd.IntN(n-1))
	}
	return int32(copy(k.ring.blocks[k.index(e):][:want], k.file[e.offset:]))
}

// scribble writes something to the memory of a request.
func (k *fake) scribble(e request) {
	block := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(k.base), int(e.address-uint64(uintptr(unsafe.Pointer(k.base)))))), e.length)
	for i := range block {
		block[i] = 0x5a
	}
}
