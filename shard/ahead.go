package shard

import (
	"slices"
	"sync/atomic"

	"github.com/ecrec/ecrec/internal/env"
)

// Reading is rows that are read beside other work.
type Reading interface {
	// Read is that of Below, for all rows of the reading. Another goroutine may call it.
	Read(dst []byte, missing []int32) ([]int32, error)
	// End ends the reading. No Read is under way.
	End()
}

// ahead reads rows in the background before they are needed, to blocks of memory beside the frames. It is used by the goroutine that uses
// the shard, and starts another one for the reads, which ends when there are no more.
//
// Invariant: a row of places has had no frame since its reading began. Only a row with a frame is written, so its newest bytes were below
// all the time.
type ahead struct {
	env    env.Env
	below  Below
	bytes  int // of a row
	rows   int // of a block
	spare  int // blocks that have no memory yet
	round  int64
	places map[int32]place
	blocks []*block // in use, oldest first
	idle   []*block
	wanted []int32      // scratch
	read   atomic.Int64 // rows

	monitor env.Monitor
	queue   []*block // to be read
	running bool     // a goroutine reads them
}

// place is the place of a row that is read ahead.
type place struct {
	block *block
	row   int32
}

// block is rows that are read at once.
type block struct {
	slots   []int32
	bytes   []byte
	reading Reading // nil: it has ended
	round   int64   // in which it was requested
	left    int     // rows that are in places

	done    bool    // guarded by the monitor; then the others do not change
	missing []int32 // indexes of rows that have no bytes below
	err     error
}

const (
	// blockRows is the most rows of a block, and leastBlocks is the least number of blocks.
	blockRows, leastBlocks = 2048, 8
	// rounds is how many rounds after its request a row may be needed.
	rounds = 4
)

// newAhead returns memory for some rows, nil if there are none.
func newAhead(e env.Env, below Below, rows, bytes int) *ahead {
	if rows == 0 {
		return nil
	}
	n := min(blockRows, max(1, rows/leastBlocks))
	return &ahead{env: e, below: below, bytes: bytes, rows: n, spare: rows / n, places: map[int32]place{},
		monitor: e.Monitor("rows that are read ahead")}
}

// beginRound begins a round of requests, and drops rows that were requested long before and not needed.
func (a *ahead) beginRound() {
	a.round++
	a.blocks = slices.DeleteFunc(a.blocks, func(b *block) bool {
		if !a.isDone(b) {
			return false
		}
		b.end()
		if b.round > a.round-rounds && b.left > 0 {
			return false
		}
		for _, slot := range b.slots {
			if a.places[slot].block == b {
				delete(a.places, slot)
			}
		}
		a.idle = append(a.idle, b)
		return true
	})
}

// isDone reports whether a block was read.
func (a *ahead) isDone(b *block) bool {
	a.monitor.Lock()
	defer a.monitor.Unlock()
	return b.done
}

// end ends the reading of a block that was read, or is not read any more.
func (b *block) end() {
	if b.reading != nil {
		b.reading.End()
		b.reading = nil
	}
}

// request starts to read rows that have bytes below and no frame, as many as there is memory for.
func (a *ahead) request(slots []int32) {
	a.wanted = a.wanted[:0]
	for _, slot := range slots {
		if _, ok := a.places[slot]; !ok {
			a.wanted = append(a.wanted, slot)
		}
	}
	slices.Sort(a.wanted)
	a.wanted = slices.Compact(a.wanted)
	a.below.Sort(a.wanted)
	for list := a.wanted; len(list) > 0; {
		b := a.takeBlock()
		if b == nil {
			return
		}
		n := min(len(list), a.rows)
		*b = block{slots: append(b.slots[:0], list[:n]...), bytes: b.bytes, round: a.round, left: n, missing: b.missing[:0]}
		for i, slot := range b.slots {
			a.places[slot] = place{b, int32(i)}
		}
		b.reading = a.below.ReadLater(b.slots)
		a.blocks = append(a.blocks, b)
		a.start(b)
		list = list[n:]
	}
}

// takeBlock returns a block that is not in use, nil if there is none.
func (a *ahead) takeBlock() *block {
	if n := len(a.idle); n > 0 {
		b := a.idle[n-1]
		a.idle = a.idle[:n-1]
		return b
	}
	if a.spare == 0 {
		return nil
	}
	a.spare--
	return &block{bytes: make([]byte, a.rows*a.bytes)}
}

// start adds a block to those to be read.
func (a *ahead) start(b *block) {
	a.monitor.Lock()
	defer a.monitor.Unlock()
	a.queue = append(a.queue, b)
	if !a.running {
		a.running = true
		a.env.Go("read rows ahead", a.readQueue)
	}
}

// readQueue reads blocks until none is left.
func (a *ahead) readQueue() {
	a.monitor.Lock()
	defer a.monitor.Unlock()
	for len(a.queue) > 0 {
		b := a.queue[0]
		a.queue = append(a.queue[:0], a.queue[1:]...)
		a.monitor.Unlock()
		missing, err := b.reading.Read(b.bytes[:len(b.slots)*a.bytes], b.missing)
		a.read.Add(int64(len(b.slots) - len(missing)))
		a.monitor.Lock()
		b.missing, b.err, b.done = missing, err, true
		a.monitor.Wake()
	}
	a.running = false
	a.monitor.Wake()
}

// has reports whether a row is read ahead, or was.
func (a *ahead) has(slot int32) bool {
	if a == nil {
		return false
	}
	_, ok := a.places[slot]
	return ok
}

// copyRow copies a row that it has, once it is read. It reports false if it could not be read, or has no bytes below.
func (a *ahead) copyRow(slot int32, dst []byte) bool {
	p := a.places[slot]
	a.monitor.Lock()
	for !p.block.done {
		a.monitor.Wait()
	}
	a.monitor.Unlock()
	if p.block.err != nil || slices.Contains(p.block.missing, p.row) {
		return false
	}
	copy(dst[:a.bytes], p.block.bytes[int(p.row)*a.bytes:])
	return true
}

// forget drops a row, which gets a frame.
func (a *ahead) forget(slot int32) {
	if a == nil {
		return
	}
	if p, ok := a.places[slot]; ok {
		p.block.left--
		delete(a.places, slot)
	}
}

// stop drops all rows. It returns when no goroutine reads any more.
func (a *ahead) stop() {
	if a == nil {
		return
	}
	a.monitor.Lock()
	a.queue = a.queue[:0]
	for a.running {
		a.monitor.Wait()
	}
	a.monitor.Unlock()
	for _, b := range a.blocks {
		b.end()
	}
	clear(a.places)
	a.idle = append(a.idle, a.blocks...)
	a.blocks = a.blocks[:0]
}
