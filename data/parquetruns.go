package data

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/parquet-go/bitpack"
)

// parquetRuns reads numbers in Parquet's encoding of runs: equal numbers, or numbers of some bits each.
type parquetRuns struct {
	data   []byte // the runs that follow
	width  uint   // bits of a number
	left   int    // numbers left in the run
	equal  uint32 // the number of a run of equal ones
	packed []byte // of another run, with parquetPadding more bytes; nil: the numbers are equal
	at     int    // the next one in packed
}

// newParquetRuns returns the reader of data, which has parquetPadding more bytes in its capacity.
func newParquetRuns(data []byte, width uint) parquetRuns {
	return parquetRuns{data: data, width: width}
}

// nextRun begins with the next run, unless one is left.
func (r *parquetRuns) nextRun() error {
	for r.left == 0 {
		head, n := binary.Uvarint(r.data)
		if n <= 0 {
			return fmt.Errorf("it has too few numbers in a run")
		}
		r.data = r.data[n:]
		if head&1 == 0 {
			size := int(r.width+7) / 8
			if len(r.data) < size {
				return fmt.Errorf("a run ends early")
			}
			r.equal, r.packed = 0, nil
			for i, b := range r.data[:size] {
				r.equal |= uint32(b) << (8 * i)
			}
			r.data, r.left = r.data[size:], int(min(head>>1, 1<<31))
			continue
		}
		groups := min(head>>1, 1<<28)
		size := int(min(groups*uint64(r.width), uint64(len(r.data))))
		r.packed, r.at, r.left, r.equal = r.data[:size+parquetPadding], 0, int(8*groups), 0
		if r.width > 0 {
			r.left = min(r.left, 8*size/int(r.width))
		}
		r.data = r.data[size:]
	}
	return nil
}

// takeNumbers sets dst to the next numbers.
func (r *parquetRuns) takeNumbers(dst []uint32) error {
	for len(dst) > 0 {
		if err := r.nextRun(); err != nil {
			return err
		}
		n := min(r.left, len(dst))
		r.left -= n
		if r.packed == nil || r.width == 0 {
			for i := range dst[:n] {
				dst[i] = r.equal
			}
		} else {
			r.unpackNumbers(dst[:n])
		}
		dst = dst[n:]
	}
	return nil
}

// unpackNumbers sets dst to numbers of the run: those up to a whole group of 8 one by one, then the groups together.
func (r *parquetRuns) unpackNumbers(dst []uint32) {
	for len(dst) > 0 && r.at%8 != 0 {
		dst[0] = r.unpackOne()
		dst = dst[1:]
	}
	if n := len(dst) &^ 7; n > 0 {
		bitpack.Unpack(dst[:n], r.packed[r.at/8*int(r.width):], r.width)
		r.at += n
		dst = dst[n:]
	}
	for i := range dst {
		dst[i] = r.unpackOne()
	}
}

// unpackOne is the next number of a packed run.
func (r *parquetRuns) unpackOne() uint32 {
	bit := uint(r.at) * r.width
	r.at++
	return uint32(binary.LittleEndian.Uint64(r.packed[bit/8:]) >> (bit % 8) & (1<<r.width - 1))
}

// takeEqual takes the next n numbers, if they are in one run of equal ones.
func (r *parquetRuns) takeEqual(n int) (x uint32, ok bool, err error) {
	if err := r.nextRun(); err != nil {
		return 0, false, err
	}
	if r.packed != nil || r.left < n {
		return 0, false, nil
	}
	r.left -= n
	return r.equal, true, nil
}

// takeLevels sets dst to the next numbers, which have at most 8 bits.
func (r *parquetRuns) takeLevels(dst []byte) error {
	for len(dst) > 0 {
		if err := r.nextRun(); err != nil {
			return err
		}
		n := min(r.left, len(dst))
		r.left -= n
		to := dst[:n]
		dst = dst[n:]
		if r.packed == nil || r.width == 0 {
			fill(to, byte(r.equal))
			continue
		}
		for len(to) > 0 {
			if r.width == 1 && r.at%8 == 0 && len(to) >= 8 {
				binary.LittleEndian.PutUint64(to, spreadBits(r.packed[r.at/8]))
				r.at += 8
				to = to[8:]
				continue
			}
			to[0] = byte(r.unpackOne())
			to = to[1:]
		}
	}
	return nil
}

func fill(dst []byte, x byte) {
	for i := range dst {
		dst[i] = x
	}
}

// spreadBits returns the bits of b in a byte each, the lowest first.
func spreadBits(b byte) uint64 {
	low, high := uint64(b&0x7f), uint64(b>>7)
	return low*0x0002040810204081&0x0001010101010101 | high<<56
}

// countLevels counts the levels that are x.
func countLevels(levels []byte, x byte) int { return bytes.Count(levels, []byte{x}) }
