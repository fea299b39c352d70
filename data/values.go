package data

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/zeebo/xxh3"
)

// missingBits is the record's form of a missing number: the quiet NaN with no payload.
const missingBits = 0x7FC00000

// hashText is the 64-bit XXH3 of a text. Texts of 4 to 8 bytes, which most hashed categories have, are hashed here.
func hashText(text []byte) uint64 {
	n := len(text)
	if n < 4 || n > 8 {
		return xxh3.Hash(text)
	}
	le := binary.LittleEndian
	return hashShort(le.Uint32(text), le.Uint32(text[n-4:]), uint64(n))
}

// hashShort is the 64-bit XXH3 of a text of 4 to 8 bytes, by the first four and the last four.
func hashShort(first, last uint32, n uint64) uint64 {
	h := uint64(last) | uint64(first)<<32
	h ^= 0xc73ab174c5ecd5a2 // of XXH3's secret, for texts of this length
	h ^= bits.RotateLeft64(h, 49) ^ bits.RotateLeft64(h, 24)
	h *= 0x9fb21c651e98df25
	h ^= h>>35 + n
	h *= 0x9fb21c651e98df25
	return h ^ h>>28
}

// missingHash is the record's form of a missing category: the hash of the empty text.
const missingHash = 0x2D06800538D394C2

// numberMap is the way from a number of a record to a dense feature.
type numberMap struct {
	transform       byte // the first letter of its name
	mean, deviation float64
}

func newNumberMap(d *DenseColumn) numberMap {
	return numberMap{transform: d.Transform[0], mean: d.Mean, deviation: d.Deviation}
}

// mapNumber maps a number, or the NaN of a missing one, which becomes 0.
func (m *numberMap) mapNumber(x float32) float32 {
	switch {
	case m.transform == 'l':
		return logFloat(x)
	case x != x:
		return 0
	case m.transform == 's':
		if m.deviation == 0 {
			return 0
		}
		return float32((float64(x) - m.mean) / m.deviation)
	}
	return x
}

// idMap is the way from the hash of a text to a row.
type idMap struct {
	reserved uint32
	mod      modulo // of the rows after the reserved ones
	// The vocabulary: the hashes of its texts, and a table of 1 + their places in it, in open addressing, whose size
	// is a power of two. slots is nil: rows by the hash. A slot of 0 is free.
	words []uint64
	slots []uint32
}

// The rows before those of values, in tables that Fit counts.
const (
	rowMissing  = 0
	rowUnknown  = 1 // not in the vocabulary
	reservedTwo = 2
)

// newIDMaps returns the maps of the categories of a recipe. Those of one table share its vocabulary.
func newIDMaps(r *Recipe) []idMap {
	maps := make([]idMap, len(r.Categorical))
	for f := range maps {
		if first := r.firstOf(f); first < f {
			maps[f] = maps[first]
		} else {
			maps[f] = newIDMap(&r.Categorical[f])
		}
	}
	return maps
}

func newIDMap(c *Category) idMap {
	m := idMap{reserved: uint32(c.Reserved)}
	if c.IDs != IDsVocabulary {
		m.mod = newModulo(c.Rows - c.Reserved)
		return m
	}
	m.words = c.hashes()
	m.slots = make([]uint32, 1<<bits.Len(uint(2*len(m.words))))
	for i, h := range m.words {
		if slot := m.find(h); *slot == 0 {
			*slot = uint32(i) + 1
		}
	}
	return m
}

// find returns the slot of a hash: its own, or a free one.
func (m *idMap) find(h uint64) *uint32 {
	mask := uint64(len(m.slots) - 1)
	for i := h; ; i++ {
		if slot := &m.slots[i&mask]; *slot == 0 || m.words[*slot-1] == h {
			return slot
		}
	}
}

// mapHash is the row of the text with a hash.
func (m *idMap) mapHash(h uint64) uint32 {
	switch {
	case m.reserved > 0 && h == missingHash:
		return rowMissing
	case m.slots == nil:
		return m.reserved + m.mod.of64(h)
	}
	if slot := *m.find(h); slot != 0 {
		return m.reserved + slot - 1
	}
	return rowUnknown
}

// mapHashes sets rows to those of the texts with hashes.
func (m *idMap) mapHashes(rows []uint32, hashes []uint64) {
	rows = rows[:len(hashes)]
	if m.words != nil || m.reserved > 0 {
		for i, h := range hashes {
			rows[i] = m.mapHash(h)
		}
		return
	}
	mod := m.mod
	for i, h := range hashes {
		rows[i] = mod.of64(h)
	}
}

// appendBag appends the rows of the ids of a bag, which are in the heap of a record file, and their weights.
func (m *idMap) appendBag(b *Batch, heap []byte, weighted bool) {
	le := binary.LittleEndian
	for entry := entryBytes(weighted); len(heap) > 0; heap = heap[entry:] {
		b.IDs = append(b.IDs, m.mapHash(le.Uint64(heap)))
		if weighted {
			b.Weights = append(b.Weights, math.Float32frombits(le.Uint32(heap[8:])))
		}
	}
}
