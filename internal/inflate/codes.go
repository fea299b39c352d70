package inflate

import (
	"math/bits"
	"sync"
)

// An entry of a table is the meaning of the next bits:
//
//	bits 0-4    how many bits it takes: those of the code, and those of the number behind it
//	bits 5-8    how many of them are the code
//	bit 9       it is a literal, or two
//	bits 10-11  the number of literals
//	bit 12      it is the length or the distance of a match
//	bit 13      it links to a second table
//	bit 14      it is the end of the block
//	bits 16-31  the literals, the first one lowest; the least length or distance; the place of the second table
//
// 0 is no code.
const (
	takenMask  = 1<<5 - 1
	codeShift  = 5
	codeMask   = 1<<4 - 1
	isLiteral  = 1 << 9
	countShift = 10
	countMask  = 3
	isMatch    = 1 << 12
	isLink     = 1 << 13
	isEnd      = 1 << 14
	valueShift = 16
)

const (
	maxCode       = 15 // bits of a code
	literalBits   = 11 // of the first table
	distanceBits  = 8
	literalCodes  = 288
	distanceCodes = 32
	// A second table has room for all longer codes. There are at least two codes in each, since codes are complete.
	literalTable  = 1<<literalBits + literalCodes/2<<(maxCode-literalBits)
	distanceTable = 1<<distanceBits + distanceCodes/2<<(maxCode-distanceBits)
)

// codes are the tables of a block.
type codes struct {
	literals  [literalTable]uint32
	distances [distanceTable]uint32
}

// literalEntries and distanceEntries are the meanings of the codes, without their sizes.
var (
	literalEntries  = makeLiteralEntries()
	distanceEntries = makeDistanceEntries()
)

// makeLiteralEntries returns the entries of RFC 1951, section 3.2.5: literals, the end, lengths.
func makeLiteralEntries() (all [literalCodes]uint32) {
	for i := range uint32(256) {
		all[i] = i<<valueShift | isLiteral | 1<<countShift
	}
	all[256] = isEnd
	length := uint32(3)
	for i := range uint32(28) {
		extra := max(i/4, 1) - 1
		all[257+i] = length<<valueShift | isMatch | extra
		length += 1 << extra
	}
	all[285] = 258<<valueShift | isMatch
	return all // the last two have no meaning
}

func makeDistanceEntries() (all [distanceCodes]uint32) {
	distance := uint32(1)
	for i := range uint32(30) {
		extra := max(i/2, 1) - 1
		all[i] = distance<<valueShift | isMatch | extra
		distance += 1 << extra
	}
	return all // the last two have no meaning
}

// fixedCodes are those of RFC 1951, section 3.2.6.
var fixedCodes = sync.OnceValue(func() *codes {
	var lengths [literalCodes + distanceCodes]uint8
	for i := range lengths {
		switch {
		case i < 144:
			lengths[i] = 8
		case i < 256:
			lengths[i] = 9
		case i < 280:
			lengths[i] = 7
		case i < literalCodes:
			lengths[i] = 8
		default:
			lengths[i] = 5
		}
	}
	c := new(codes)
	if !c.build(lengths[:literalCodes], lengths[literalCodes:]) {
		panic("inflate: the fixed codes are not complete")
	}
	return c
})

// build makes the tables from the sizes of the codes. It reports false if they are not complete.
func (c *codes) build(literals, distances []uint8) bool {
	if !buildTable(c.literals[:], literalBits, literals, literalEntries[:]) ||
		!buildTable(c.distances[:], distanceBits, distances, distanceEntries[:]) {
		return false
	}
	c.joinLiterals()
	return true
}

// joinLiterals makes entries of two literals where the bits of an entry hold two.
func (c *codes) joinLiterals() {
	table := (*[1 << literalBits]uint32)(c.literals[:])
	// The bits behind a code are a smaller number than the entry's: it has not been joined yet.
	for i := len(table) - 1; i >= 0; i-- {
		a := table[i]
		if a&isLiteral == 0 {
			continue
		}
		n := a & takenMask
		b := table[uint(i)>>n]
		if b&isLiteral != 0 && n+b&takenMask <= literalBits {
			value := a>>valueShift | b>>valueShift<<8
			table[i] = value<<valueShift | isLiteral | 2<<countShift | n + b&takenMask
		}
	}
}

// buildTable makes a table whose first part has 1<<first entries, and the second tables behind it. It reports false if the codes are
// neither complete, nor none, nor a single one of one bit.
func buildTable(table []uint32, first uint, sizes []uint8, entries []uint32) bool {
	var count, next [maxCode + 1]int
	for _, n := range sizes {
		count[n]++
	}
	count[0] = 0
	code, space := 0, 0 // space is the part of all codes that is taken, in codes of maxCode bits
	for n := 1; n <= maxCode; n++ {
		code = (code + count[n-1]) << 1
		next[n] = code
		space += count[n] << (maxCode - n)
	}
	if space != 1<<maxCode && space != 0 && (count[1] != 1 || space != 1<<(maxCode-1)) {
		return false
	}
	size := 1 << first
	clear(table[:size])
	free := size
	for i, n := range sizes {
		if n == 0 {
			continue
		}
		code := int(bits.Reverse16(uint16(next[n])) >> (16 - n))
		next[n]++
		entry := entries[i] + uint32(n)<<codeShift + uint32(n)
		if uint(n) <= first {
			for ; code < size; code += 1 << n {
				table[code] = entry
			}
			continue
		}
		link := &table[code&(size-1)]
		if *link == 0 {
			*link = uint32(free)<<valueShift | isLink
			free += 1 << (maxCode - first)
		}
		second := table[*link>>valueShift:][:1<<(maxCode-first)]
		for k := code >> first; k < len(second); k += 1 << (uint(n) - first) {
			second[k] = entry
		}
	}
	return true
}
