package store

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/internal/directio"
	"github.com/ecrec/ecrec/rowlog"
)

// spill is a file with rows that had to leave memory before the log had them. It lives as long as its process.
//
// Rows are written in batches, one after the other, to free parts of the file. A batch is free once each of its rows
// was spilled again or dropped. Each row is read with a sum of its bytes, its slot and its batch, which are in memory.
type spill struct {
	rowBytes int
	openDir  func() (Dir, error)
	dir      Dir               // nil if it could not be opened yet
	file     rowlog.File       // nil until the first batch
	opened   func()            // is called once the file is open; nil: nothing is
	batches  map[uint32]*batch // by number
	last     uint32            // the newest number
	pages    [][]uint32        // by page of slots: the number of the batch that holds a row, 0 if none does; nil: none of the page
	free     []extent          // of the file, by offset
	end      int64             // the file's
	buf      []byte            // of a batch that is written; aligned
	scratch  spilledRows       // rows that are read
}

// batch is rows that were written at once.
type batch struct {
	at    extent
	mark  int64
	slots []int32 // ascending
	sums  []uint32
	live  int // rows that are the newest
	reads int // rows that are read in the background: the batch keeps its extent
}

// extent is a part of the file. Its bounds are multiples of rowlog.Align.
type extent struct{ at, end int64 }

// spilled is a row that is read.
type spilled struct {
	at    int64
	sum   uint32
	batch uint32
	slot  int32
	row   int // its index in the list
}

// spilledRows are rows that are read, by offset.
type spilledRows struct {
	file    rowlog.File
	rows    []spilled
	records rowlog.RecordReader
	at      []int64 // scratch: offsets
}

// read reads the rows to their places in dst.
func (l *spilledRows) read(dst []byte, rowBytes int) error {
	if len(l.rows) == 0 {
		return nil
	}
	l.at = l.at[:0]
	for _, w := range l.rows {
		l.at = append(l.at, w.at)
	}
	return l.records.Read(l.file, l.at, rowBytes, func(i int, row []byte) error {
		w := &l.rows[i]
		if sumOf(w.batch, w.slot, row) != w.sum {
			return fmt.Errorf("the row at offset %d of the spilled rows is damaged", w.at)
		}
		copy(dst[w.row*rowBytes:(w.row+1)*rowBytes], row)
		return nil
	})
}

// pageSlots is how many slots have their batches in one page.
const pageSlots = 4096

func newSpill(openDir func() (Dir, error), slots int64, rowBytes int) *spill {
	return &spill{rowBytes: rowBytes, openDir: openDir, batches: map[uint32]*batch{}, pages: make([][]uint32, (slots+pageSlots-1)/pageSlots)}
}

// openFolder opens the folder, and removes files of processes that ended.
func (p *spill) openFolder() (err error) {
	if p.dir == nil {
		if p.dir, err = p.openDir(); err != nil {
			p.dir = nil
			return err
		}
	}
	old, err := p.dir.List()
	for _, n := range old {
		if err == nil {
			err = p.dir.Remove(n)
		}
	}
	return err
}

// removeFile ends the use of the file.
func (p *spill) removeFile() {
	if p.file != nil {
		_ = p.file.Close() // nothing of it is needed any more
		_ = p.dir.Remove(1)
	}
	if p.dir != nil {
		p.dir.Close()
	}
}

// write writes rows, by ascending slot. They are needed until drop with at least the mark.
func (p *spill) write(slots []int32, rows []byte, mark int64) (err error) {
	if p.file == nil {
		if err = p.openFolder(); err != nil {
			return err
		}
		if p.file, err = p.dir.Create(1); err != nil {
			p.file = nil
			return err
		}
		if p.opened != nil {
			p.opened()
		}
	}
	p.last++
	b := &batch{at: p.place(int64(len(rows))), mark: mark, slots: slices.Clone(slots), sums: make([]uint32, 0, len(slots)), live: len(slots)}
	n := int(b.at.end - b.at.at)
	if len(p.buf) < n {
		p.buf = directio.Aligned(n)
	}
	clear(p.buf[copy(p.buf, rows):n])
	if err := p.file.WriteAt(p.buf[:n], b.at.at); err != nil {
		p.release(b.at)
		return err
	}
	for i, slot := range slots {
		b.sums = append(b.sums, sumOf(p.last, slot, rows[i*p.rowBytes:(i+1)*p.rowBytes]))
		p.takeOut(slot)
		*p.of(slot) = p.last
	}
	p.batches[p.last] = b
	return nil
}

// sumOf is a sum of a row.
func sumOf(batch uint32, slot int32, row []byte) uint32 {
	return uint32(xxh3.HashSeed(row, uint64(batch)<<32|uint64(slot)))
}

// of returns the number of a row's batch, and makes its page.
func (p *spill) of(slot int32) *uint32 {
	page := &p.pages[slot/pageSlots]
	if *page == nil {
		*page = make([]uint32, pageSlots)
	}
	return &(*page)[slot%pageSlots]
}

// has returns the number of a row's batch, 0 if there is none.
func (p *spill) has(slot int32) uint32 {
	if page := p.pages[slot/pageSlots]; page != nil {
		return page[slot%pageSlots]
	}
	return 0
}

// takeOut takes a row out of its batch, if it has one.
func (p *spill) takeOut(slot int32) {
	n := p.has(slot)
	if n == 0 {
		return
	}
	*p.of(slot) = 0
	b := p.batches[n]
	b.live--
	p.removeUnused(n, b)
}

// removeUnused removes a batch that is not needed.
func (p *spill) removeUnused(n uint32, b *batch) {
	if b.live == 0 && b.reads == 0 {
		p.release(b.at)
		delete(p.batches, n)
	}
}

// drop drops the rows of all batches up to a mark.
func (p *spill) drop(mark int64) {
	var numbers []uint32
	for n, b := range p.batches {
		if b.mark <= mark {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		b := p.batches[n]
		for _, slot := range b.slots {
			if page := p.pages[slot/pageSlots]; page[slot%pageSlots] == n {
				page[slot%pageSlots] = 0
			}
		}
		b.live = 0
		p.removeUnused(n, b)
	}
}

// place returns a free extent for some bytes: the first that is large enough.
func (p *spill) place(bytes int64) extent {
	bytes = (bytes + rowlog.Align - 1) / rowlog.Align * rowlog.Align
	for i := range p.free {
		if f := &p.free[i]; f.end-f.at >= bytes {
			x := extent{f.at, f.at + bytes}
			if f.at = x.end; f.at == f.end {
				p.free = slices.Delete(p.free, i, i+1)
			}
			return x
		}
	}
	x := extent{p.end, p.end + bytes}
	p.end = x.end
	return x
}

// release makes an extent free, and joins it with its neighbours.
func (p *spill) release(x extent) {
	i, _ := slices.BinarySearchFunc(p.free, x.at, func(f extent, at int64) int { return int(max(-1, min(1, f.at-at))) })
	if i < len(p.free) && p.free[i].at == x.end {
		x.end = p.free[i].end
		p.free = slices.Delete(p.free, i, i+1)
	}
	if i > 0 && p.free[i-1].end == x.at {
		x.at = p.free[i-1].at
		i--
		p.free = slices.Delete(p.free, i, i+1)
	}
	if x.end == p.end {
		p.end = x.at
		return
	}
	p.free = slices.Insert(p.free, i, x)
}

// find lists the rows that it has, by offset, and appends the indexes of the others to missing.
func (p *spill) find(list *spilledRows, slots []int32, missing []int32) []int32 {
	list.rows, list.file = list.rows[:0], p.file
	for i, slot := range slots {
		n := p.has(slot)
		if n == 0 {
			missing = append(missing, int32(i))
			continue
		}
		b := p.batches[n]
		at, _ := slices.BinarySearch(b.slots, slot)
		list.rows = append(list.rows, spilled{b.at.at + int64(at)*int64(p.rowBytes), b.sums[at], n, slot, i})
	}
	slices.SortFunc(list.rows, func(a, b spilled) int { return cmp.Compare(a.at, b.at) })
	return missing
}

// read reads the rows that it has to their places in dst, and appends the places of the others to missing.
func (p *spill) read(slots []int32, dst []byte, missing []int32) ([]int32, error) {
	missing = p.find(&p.scratch, slots, missing)
	return missing, p.scratch.read(dst, p.rowBytes)
}

// beginReads keeps the extents of rows that are read in the background, until endReads.
func (p *spill) beginReads(list *spilledRows) { p.countReads(list, 1) }

func (p *spill) endReads(list *spilledRows) { p.countReads(list, -1) }

func (p *spill) countReads(list *spilledRows, n int) {
	for _, w := range list.rows {
		if b := p.batches[w.batch]; b != nil {
			b.reads += n
			p.removeUnused(w.batch, b)
		}
	}
}

// sort puts the rows that it has before the others, by offset. It returns their number.
func (p *spill) sort(list []int32) int {
	missing := p.find(&p.scratch, list, nil)
	sorted := make([]int32, 0, len(list))
	for _, w := range p.scratch.rows {
		sorted = append(sorted, w.slot)
	}
	for _, i := range missing {
		sorted = append(sorted, list[i])
	}
	copy(list, sorted)
	return len(list) - len(missing)
}

// dropAll drops all rows.
func (p *spill) dropAll() {
	clear(p.batches)
	clear(p.pages)
	p.free, p.end = nil, 0
}
