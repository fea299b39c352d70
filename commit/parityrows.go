package commit

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/kernels"
)

// parityRows are the parity rows that one owner holds.
type parityRows struct {
	group  ec.Group
	code   *ec.Code
	owner  int
	dev    kernels.Device
	stream kernels.Stream // the training goroutine's
	rows   kernels.Matrix // in the order of their places
	// places has 1 + the place of each row, 0 if it has none. Rows get places in the order in
	// which they are first marked, and keep them, so that rows in use share pages: the first steps touch few pages, and rows that no step
	// uses take no memory. Nil, in memory that the CPU does not address: the place of a row is its number.
	// A row has markedAll if all of its columns are marked in folded.
	places []uint32
	placed uint32 // how many rows have a place
	// folded has a bit for each row and data column: whether the column's row may differ from
	// its init. A row without a bit counts as zeros. If it has a place, the bytes there may be anything.
	folded bitset
	// unbuilt has a bit for each row that is yet to be encoded. Deltas of such a row are
	// dropped.
	unbuilt bitset
	missing atomic.Int64 // bits of unbuilt

	series      []ec.Series    // this owner's shards, by stripe modulo the group's size
	targets     [][]foldTarget // for each member, where the deltas of its slots are added, by slot modulo data columns
	divide      divisor        // by the number of data columns
	index, from []int32        // scratch of foldRows
	factors     []byte         // scratch of foldRows
}

// foldTarget is where this owner adds the deltas of some slots of another one, multiplied by factor: to its parity rows row,
// row + r, ..., of which they are a data column.
type foldTarget struct {
	row    int64
	column int
	factor byte
	held   bool // if not, this owner holds no parity of these slots
}

// newParityRows reserves the parity rows of an owner.
func newParityRows(o *ParityOptions, code *ec.Code) (*parityRows, error) {
	owner, stride := o.Owner, o.Shard.RowBytes()
	p := &parityRows{group: o.Layout.GroupOf(owner), code: code, owner: owner, dev: o.Device, stream: o.Shard.Stream()}
	n := p.group.ParityRows(owner, o.Slots)
	var buf kernels.Buffer
	if n > 0 {
		var err error
		if buf, err = p.dev.Alloc(int(n)*stride, kernels.Rows); err != nil {
			return nil, fmt.Errorf("commit: %d parity rows of %d bytes of owner %d: %w", n, stride, owner, err)
		}
	}
	p.rows = kernels.Mat(buf, int(n), stride/4)
	if n > 0 && buf.OnHost() {
		p.places = make([]uint32, n)
		kernels.HugePages(p.places)
		kernels.HugePages(buf.Host()) // rows are used from the beginning on
	}
	p.clearRows()
	p.folded = newBitset(n * int64(p.group.Data()))
	p.series = p.group.Series(owner)
	for member := p.group.First; member < p.group.First+p.group.Size; member++ {
		columns, held := p.group.Columns(member, owner)
		targets := make([]foldTarget, len(columns))
		for x, c := range columns {
			if held[x] {
				targets[x] = foldTarget{c.Row, c.Column, code.Factor(c.Column, c.Parity), true}
			}
		}
		p.targets = append(p.targets, targets)
	}
	p.divide = newDivisor(p.group.Data())
	return p, nil
}

func (p *parityRows) freeRows() { release(p.dev, &p.rows.Buf) }

const (
	// PlaceBytes is the memory of the place of a parity row.
	PlaceBytes = 4
	// markedAll is the bit of places that is in no place, as an owner has at most math.MaxInt32 parity rows. foldRows finds it in the cache
	// line of the place, which it needs: the bits in folded would be another cache miss.
	markedAll = 1 << 31
)

// clearRows makes the bytes of all rows zeros, if they have no places. Else takePlace clears each.
func (p *parityRows) clearRows() {
	if p.places == nil && p.rows.Rows > 0 {
		p.stream.Zero(p.rows.Buf)
		_ = p.stream.Sync() // before other streams use them; an error stays in the stream
	}
}

// placeOf returns the place of a row that has a marked column.
func (p *parityRows) placeOf(at int64) int32 {
	if p.places == nil {
		return int32(at)
	}
	return int32(p.places[at]&^markedAll) - 1
}

// takePlace is called before a column of a row is marked. It gives the row a place, if it has none, and clears the bytes there if no
// column is marked yet.
func (p *parityRows) takePlace(at int64) {
	if p.places == nil || !p.isZero(at) {
		return
	}
	if p.places[at] == 0 {
		p.placed++
		p.places[at] = p.placed
	}
	clear(p.rows.RowRange(int(p.placeOf(at)), 1).Buf.Host())
}

// Rows is how many parity rows there are.
func (p *parityRows) Rows() int64 { return int64(p.rows.Rows) }

func (p *parityRows) isUnbuilt(at int64) bool {
	return p.missing.Load() > 0 && p.unbuilt.has(at)
}

// foldAhead is how many rows foldRows works on while it prefetches what it reads of later ones.
const foldAhead = 16

// foldRows adds the deltas of some rows of a sender, which follow each other in rows.
func (p *parityRows) foldRows(sender int, slots []int32, rows kernels.Buffer) {
	targets := p.targets[sender-p.group.First]
	p.index, p.from, p.factors = p.index[:0], p.from[:0], p.factors[:0]
	plain, marks := true, true
	for i, slot := range slots {
		if i%foldAhead == 0 {
			p.prefetchMarks(targets, slots, i, marks)
			marks = false
		}
		at, to := p.findTarget(targets, slot)
		if !to.held {
			panic(fmt.Sprintf("commit: owner %d received the delta of slot %d of owner %d, but does not hold its parity", p.owner, slot, sender))
		}
		if p.isUnbuilt(at) {
			continue
		}
		if p.places == nil || p.places[at]&markedAll == 0 {
			p.markColumn(at, to.column)
			marks = true
		}
		plain = plain && to.factor == 1
		p.index, p.from, p.factors = append(p.index, p.placeOf(at)), append(p.from, int32(i)), append(p.factors, to.factor)
	}
	factors := p.factors
	if plain {
		factors = nil
	}
	p.stream.FoldRows(p.rows, kernels.HostBuffer(p.index), kernels.Mat(rows, len(slots), p.rows.Cols), kernels.HostBuffer(p.from), factors)
}

// findTarget returns the parity row that a delta of a slot is added to, and the target of all such slots.
func (p *parityRows) findTarget(targets []foldTarget, slot int32) (at int64, to *foldTarget) {
	rotation, x := p.divide.quotient(slot)
	to = &targets[x]
	return to.row + int64(rotation)*int64(p.group.Parity), to
}

// prefetchMarks prefetches what foldRows reads of the rows of later slots at slot i, a multiple of foldAhead: their places and, if marks is
// set, the bits of their columns. At slot 0 it begins with the rows of that slot.
func (p *parityRows) prefetchMarks(targets []foldTarget, slots []int32, i int, marks bool) {
	first, end := min(i+2*foldAhead, len(slots)), min(i+3*foldAhead, len(slots))
	if i == 0 {
		first = 0
	}
	var rows, words [3 * foldAhead]int32
	data := int64(p.group.Data())
	for k, slot := range slots[first:end] {
		at, to := p.findTarget(targets, slot)
		rows[k], words[k] = int32(at), int32((at*data+int64(to.column))>>6)
	}
	if p.places != nil {
		kernels.Prefetch(p.places, rows[:end-first])
	}
	if marks {
		kernels.Prefetch(p.folded, words[:end-first])
	}
}

// markColumn records that a column of a row may differ from zeros.
func (p *parityRows) markColumn(at int64, column int) {
	if p.isMarked(at, column) {
		return
	}
	p.takePlace(at)
	p.folded.set(at*int64(p.group.Data()) + int64(column))
	p.noteMarked(at)
}

// noteMarked gives a row markedAll if all of its columns are marked.
func (p *parityRows) noteMarked(at int64) {
	if p.places == nil {
		return
	}
	for column := range p.group.Data() {
		if !p.isMarked(at, column) {
			return
		}
	}
	p.places[at] |= markedAll
}

// markRead marks the columns that may differ from zeros in a row that is built from a shard:
// the shard's own column, or every column if the shard is a parity.
func (p *parityRows) markRead(at int64, shard int) {
	p.takePlace(at)
	first, n := at*int64(p.group.Data()), int64(p.group.Data())
	if shard < p.group.Data() {
		first, n = first+int64(shard), 1
	}
	for bit := first; bit < first+n; bit++ {
		p.folded.set(bit)
	}
	p.noteMarked(at)
}

// isMarked reports whether a column of a row may differ from zeros.
func (p *parityRows) isMarked(at int64, column int) bool {
	return p.folded.has(at*int64(p.group.Data()) + int64(column))
}

// isZero reports whether a row is all zeros, because no column of it was marked.
func (p *parityRows) isZero(at int64) bool {
	n := int64(p.group.Data())
	first := at * n
	if skip := first & 63; skip+n <= 64 { // its bits are in one word
		return p.folded[first>>6]>>skip<<(64-n) == 0
	}
	return p.folded.next(first, first+n) == first+n
}

// discardRows makes all rows zeros and unbuilt, for a new holder.
func (p *parityRows) discardRows() {
	n := p.Rows()
	p.clearRows()
	p.unbuilt = newBitset(n)
	p.unbuilt.fill(n)
	p.missing.Store(n)
	clear(p.folded)
	if p.placed > 0 { // else the list may have no memory yet
		for at := range p.places {
			p.places[at] &^= markedAll
		}
	}
}

// resetRows makes all rows those of a new model: zeros, and built.
func (p *parityRows) resetRows() {
	p.discardRows()
	p.unbuilt = newBitset(p.Rows())
	p.missing.Store(0)
}

// buildRows sets unbuilt rows (len(at), stride). Rows other than zeros are marked already.
func (p *parityRows) buildRows(s kernels.Stream, at []int32, rows kernels.Matrix) {
	p.index, p.from = p.index[:0], p.from[:0]
	for i, row := range at {
		p.setBuilt(int64(row))
		if !p.isZero(int64(row)) {
			p.index, p.from = append(p.index, p.placeOf(int64(row))), append(p.from, int32(i))
		}
	}
	s.FoldRows(p.rows, kernels.HostBuffer(p.index), rows, kernels.HostBuffer(p.from), nil) // they are zeros so far
}

// setBuilt records that a row is built. If no column is marked, it is zeros.
func (p *parityRows) setBuilt(at int64) {
	if p.isUnbuilt(at) {
		p.unbuilt.unset(at)
		p.missing.Add(-1)
	}
}

// ParityBytes is the memory of parity rows that were ever written. It looks at all of
// them.
func (p *Parity) ParityBytes() (n int64) {
	if !p.ownsRows() {
		return 0
	}
	for at := range p.Rows() {
		if !p.isZero(at) {
			n += int64(p.o.Shard.RowBytes())
		}
	}
	return n
}

// TouchAll makes every parity row take its memory, in random order as steps do, and counts every row of its stripe as written, as late
// in a long run. It is for measurements, before the first epoch. From then on Begin keeps all parity rows, though steps without
// protection may have changed rows since: they cost what they do in a run, and nothing can be rebuilt from them.
func (p *Parity) TouchAll() {
	if !p.ownsRows() {
		return
	}
	for _, at := range rand.New(rand.NewPCG(1, 0)).Perm(int(p.Rows())) {
		p.markRead(int64(at), p.group.Data())
	}
	p.measured = true
}
