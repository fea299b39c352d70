package inflate

import (
	"encoding/binary"
	"io"
)

// decodeBlock decodes a block to b[n:], until there is too little room or the block ends. Matches reach back to index
// begins, which is negative if text of the last calls is in reach. It returns the end of the text.
func (z *Reader) decodeBlock(b []byte, n, begins int) (int, error) {
	for z.state == inBlock && len(b)-n >= roomBytes {
		if err := z.fetch(marginBytes + 8); err != nil {
			return n, err
		}
		// Behind the end of the input there are zeros, and no code takes 8 bytes.
		last := z.end - marginBytes
		if z.ended {
			last = z.end + padBytes - marginBytes
		}
		if z.at > last {
			return n, io.ErrUnexpectedEOF
		}
		var err error
		if n, err = z.decodeCodes(b, n, begins, last); err != nil {
			return n, err
		}
	}
	return n, nil
}

// decodeCodes is decodeBlock up to a place in the input.
func (z *Reader) decodeCodes(b []byte, n, begins, last int) (int, error) {
	le := binary.LittleEndian
	in, at, hold, count := z.in, z.at, z.bits, z.bitCount
	literals, distances := &z.codes.literals, &z.codes.distances
	full := len(b) - roomBytes
steps:
	for at <= last && n <= full {
		// Afterwards there are at least 56 bits.
		hold |= le.Uint64(in[at:]) << (count & 63)
		at += int(63-count) >> 3
		count |= 56
		entry := literals[hold&(1<<literalBits-1)]
		for entry&isLiteral != 0 {
			le.PutUint16(b[n:], uint16(entry>>valueShift))
			n += int(entry >> countShift & countMask)
			hold >>= entry & takenMask
			count -= uint(entry & takenMask)
			if count < maxCode+5 { // of a length with its number
				continue steps
			}
			entry = literals[hold&(1<<literalBits-1)]
		}
		if entry&isLink != 0 {
			entry = literals[uint64(entry>>valueShift)+hold>>literalBits&(1<<(maxCode-literalBits)-1)]
		}
		taken, bits := entry&takenMask, hold
		hold >>= taken
		count -= uint(taken)
		if entry&isMatch == 0 {
			if entry&isLiteral != 0 {
				b[n] = byte(entry >> valueShift)
				n++
				continue
			}
			z.at, z.bits, z.bitCount = at, hold, count
			if entry&isEnd == 0 {
				return n, z.corrupt()
			}
			return n, z.endBlock()
		}
		length := int(entry>>valueShift) + int(bits&(1<<taken-1)>>(entry>>codeShift&codeMask))
		hold |= le.Uint64(in[at:]) << (count & 63)
		at += int(63-count) >> 3
		count |= 56
		entry = distances[hold&(1<<distanceBits-1)]
		if entry&isLink != 0 {
			entry = distances[uint64(entry>>valueShift)+hold>>distanceBits&(1<<(maxCode-distanceBits)-1)]
		}
		taken, bits = entry&takenMask, hold
		hold >>= taken
		count -= uint(taken)
		distance := int(entry>>valueShift) + int(bits&(1<<taken-1)>>(entry>>codeShift&codeMask))
		switch {
		case entry&isMatch == 0 || distance > n-begins:
			z.at, z.bits, z.bitCount = at, hold, count
			return n, z.corrupt()
		case distance <= n:
			n = copyMatch(b, n, distance, length)
		default:
			n = z.copyTail(b, n, distance, length)
		}
	}
	z.at, z.bits, z.bitCount = at, hold, count
	return n, nil
}

// copyMatch appends length bytes of the text at a distance to b[:n]. It may write up to 15 bytes more.
func copyMatch(b []byte, n, distance, length int) int {
	end, from := n+length, n-distance
	if distance < 8 {
		for ; n < end; n++ {
			b[n] = b[n-distance]
		}
		return end
	}
	le := binary.LittleEndian
	for {
		le.PutUint64(b[n:], le.Uint64(b[from:]))
		le.PutUint64(b[n+8:], le.Uint64(b[from+8:]))
		if n, from = n+16, from+16; n >= end {
			return end
		}
	}
}

// copyTail is copyMatch for a text that begins in the text of the last calls.
func (z *Reader) copyTail(b []byte, n, distance, length int) int {
	k := copy(b[n:n+length], z.tail[len(z.tail)-(distance-n):])
	n += k
	if k < length {
		return copyMatch(b, n, distance, length-k)
	}
	return n
}
