package train

import (
	"sync/atomic"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/lrpp"
)

// Class is a class of traffic between ranks, or between a rank and its disk.
type Class int

// The classes. Metrics use their names.
const (
	ClassCritical Class = iota // rows and gradients that a step waits for
	ClassDelayed               // rows and gradients that move while a step computes
	ClassParity                // deltas of rows, sent to the ranks with their parities
	ClassRebuild               // rows and parities that lost ones are rebuilt from
	ClassRead                  // rows that are read from a disk (store.tier)
	ClassSpill                 // rows that leave memory before the log has them (store.tier)
	Classes
)

var classNames = [Classes]string{"critical", "delayed", "parity", "rebuild", "read", "spill"}

func (c Class) String() string { return classNames[c] }

// Meter counts what the ranks of one process move, hold and have lost. Ranks update it
// after each step. Any goroutine may read it at any time.
type Meter struct {
	// Rows and Bytes count the traffic that the ranks received in each class, and sent in
	// ClassParity and ClassSpill. Rows of ClassRebuild were rebuilt, from the Bytes that were read.
	Rows, Bytes [Classes]atomic.Int64
	// Ranks is how many ranks the process hosts.
	Ranks atomic.Int64
	// RowBytes and ParityBytes are the memory of rows, with their optimizer state, and of
	// parities when every row has been touched.
	RowBytes, ParityBytes atomic.Int64
	// MissingRows and MissingParities are lost and not rebuilt yet.
	MissingRows, MissingParities atomic.Int64
}

// figures are what one rank has added to its process's Meter.
type figures struct {
	rows, bytes                  [Classes]int64
	ranks, rowBytes, parityBytes int64
	missing                      commit.Loss
}

func (f *figures) setClass(c Class, rows, bytes int64) { f.rows[c], f.bytes[c] = rows, bytes }

// meterShare is one rank's share of its process's Meter.
type meterShare struct {
	meter *Meter     // nil: nothing is shown
	moved lrpp.Moved // to this rank in training
	shown figures
}

// showFigures adds to the Meter by how much f differs from the figures shown last.
func (m *meterShare) showFigures(f figures) {
	if m.meter == nil {
		return
	}
	was := m.shown
	m.shown = f
	for c := range Classes {
		m.meter.Rows[c].Add(f.rows[c] - was.rows[c])
		m.meter.Bytes[c].Add(f.bytes[c] - was.bytes[c])
	}
	m.meter.Ranks.Add(f.ranks - was.ranks)
	m.meter.RowBytes.Add(f.rowBytes - was.rowBytes)
	m.meter.ParityBytes.Add(f.parityBytes - was.parityBytes)
	m.meter.MissingRows.Add(f.missing.Rows - was.missing.Rows)
	m.meter.MissingParities.Add(f.missing.Parities - was.missing.Parities)
}

// hideFigures is called when the process no longer hosts the rank. Counts of moved rows stay.
func (m *meterShare) hideFigures() { m.showFigures(figures{rows: m.shown.rows, bytes: m.shown.bytes}) }
