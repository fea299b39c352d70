package oracle

import (
	"fmt"
	"math"

	"github.com/ecrec/ecrec/internal/placement"
)

// Plan lists the rows that one rank's slice of a batch needs. Its slices are reused by
// the next call of Fill.
type Plan struct {
	// Slots lists the distinct rows: those of owner 0 by ascending slot, then those of
	// owner 1, and so on. PerOwner is the number of rows of each owner.
	Slots    []int32
	PerOwner []int
	// Index is the row that each lookup reads, as a position in Slots.
	Index []int32
	// Start and Pos list the cells of the lookups of each row, in lookup order. Those of
	// row u are Pos[Start[u]:Start[u+1]]. A row that a bag has twice has its cell twice.
	// If every bag has one id, a lookup and its cell have the same number.
	Start, Pos []int32
	// Factors are the weights of the lookups of Pos, empty if lookups have none.
	Factors []float32

	own *Filler // of Fill
}

// Lookups are those of a slice.
type Lookups struct {
	// IDs holds the id of each lookup, below the number of rows of its table.
	IDs []uint32
	// Offsets has one entry more than there are cells. The lookups of cell c are numbers
	// Offsets[c] to Offsets[c+1]-1. Nil: each cell has one.
	Offsets []int32
	// Weights holds the weight of each lookup. Nil: all are 1.
	Weights []float32
	// TableOf is the table of each feature. Nil: feature f looks up table f.
	TableOf []int
}

func (l Lookups) tableOf(f int) int {
	if l.TableOf == nil {
		return f
	}
	return l.TableOf[f]
}

// Threads run independent parts of a plan. A kernels.Threads is one.
type Threads interface {
	// Count is the number of threads.
	Count() int
	// Run calls part for each i in [0, parts), in any order and at the same time, and returns
	// when all are done. worker is below Count; no two parts run with the same worker at once.
	Run(parts int, part func(worker, i int))
}

// Caller is the thread of the caller, which runs parts one after another.
type Caller struct{}

// Count is 1.
func (Caller) Count() int { return 1 }

// Run runs all parts.
func (Caller) Run(parts int, part func(worker, i int)) {
	for i := range parts {
		part(0, i)
	}
}

// Fill plans a slice on the thread of the caller.
func (p *Plan) Fill(m placement.Map, l Lookups) {
	if p.own == nil {
		p.own = NewFiller(FillerOptions{})
	}
	p.own.Fill(p, m, l)
}

// Fill plans a slice. The plan does not depend on the number of threads.
func (x *Filler) Fill(p *Plan, m placement.Map, l Lookups) {
	ids := len(l.IDs)
	if m.Slots(0) > math.MaxInt32 || ids > math.MaxInt32 || len(l.Offsets) > math.MaxInt32 { // owner 0 has the most slots
		panic(fmt.Sprintf("oracle: %d lookups of %d rows on %d owners; a plan covers at most %d lookups, and as many rows of each owner",
			ids, m.Rows(), m.Owners, math.MaxInt32))
	}
	p.Index, p.Pos, p.Factors = resize(p.Index, ids), resize(p.Pos, ids), resize(p.Factors, len(l.Weights))
	if l.Offsets == nil && l.Weights == nil && l.TableOf == nil && x.threads.Count() == 1 {
		x.columns.fill(p, m, l.IDs)
		return
	}
	x.plan, x.lookups = p, l
	x.cutChunks(m)
	x.threads.Run(x.chunks, x.countFeatures)
	x.cutTables(m)
	x.threads.Run(x.chunks, x.countChunk)
	x.placeBuckets()
	x.threads.Run(x.chunks, x.dealChunk)
	x.orderBuckets()
	x.threads.Run(len(x.full), x.listBucket)
	rows := x.numberRows(m.Owners)
	p.Slots, p.Start = resize(p.Slots, rows), resize(p.Start, rows+1)
	p.Start[rows] = int32(ids)
	x.threads.Run(x.copies+x.chunks, x.finish)
	x.plan, x.lookups = nil, Lookups{}
}
