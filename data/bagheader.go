package data

import "encoding/binary"

// A record file of version 2 holds samples of which some features are bags:
//
//	header   as in version 1, and bagHeader
//	block    its size in bytes and the number of its records, uint64 each
//	         blockRecords records (the last block may have fewer)
//	         heap: the ids of the bags of these records, and their weights
//	         trailer, as in version 1
//	...
//	index    the position of each block, uint64, and a checksum of the positions
//
// A record is one of version 1, and where its ids begin in the heap of the block, uint32. The hash
// of a feature that is a bag is replaced by the number of its ids, uint32, in the high half, and
// in the low half where they begin among those of the record. An id in the heap is its hash,
// uint64, and if ids have weights a float32.
//
// Any sample is found by two divisions and the index, which is in memory.

// bagHeader is the part of a record file's header that only version 2 has.
type bagHeader struct {
	mask     []bool // which features are bags; nil: version 1
	weighted bool
	indexAt  uint64 // position of the index
	ids      uint64 // of all samples, those of features that are no bags too
}

// Places in the header.
const (
	bagsIndexAt = 64
	bagsIDsAt   = 72
	bagsFlagsAt = 80
	bagsMaskAt  = 128
)

const (
	bagBlockRecords = 1024
	bagPrefixBytes  = 16 // before the records of a block
)

// entryBytes is the size of an id in the heap.
func entryBytes(weighted bool) int {
	if weighted {
		return 12
	}
	return 8
}

func (g *bagHeader) putFields(b []byte) {
	if g.mask == nil {
		return
	}
	le := binary.LittleEndian
	le.PutUint64(b[bagsIndexAt:], g.indexAt)
	le.PutUint64(b[bagsIDsAt:], g.ids)
	if g.weighted {
		b[bagsFlagsAt] = 1
	}
	for f, bag := range g.mask {
		if bag {
			b[bagsMaskAt+f/8] |= 1 << (f % 8)
		}
	}
}

func (g *bagHeader) readFields(b []byte, features int) {
	le := binary.LittleEndian
	g.indexAt, g.ids, g.weighted = le.Uint64(b[bagsIndexAt:]), le.Uint64(b[bagsIDsAt:]), b[bagsFlagsAt] == 1
	g.mask = make([]bool, features)
	for f := range g.mask {
		g.mask[f] = b[bagsMaskAt+f/8]>>(f%8)&1 == 1
	}
}

// singles is the number of features that are no bags.
func (g *bagHeader) singles() (n uint64) {
	for _, bag := range g.mask {
		if !bag {
			n++
		}
	}
	return n
}
