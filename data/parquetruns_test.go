package data

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// appendRuns appends numbers in runs of random lengths, equal or packed.
func appendRuns(dst []byte, r *rand.Rand, numbers []uint32, width uint) []byte {
	for len(numbers) > 0 {
		same := 1
		for same < len(numbers) && numbers[same] == numbers[0] {
			same++
		}
		if n := 8 * (1 + r.IntN(80)); same < 9 && (n <= len(numbers) || len(numbers) < 8) {
			groups := (min(n, len(numbers)) + 7) / 8
			dst = binary.AppendUvarint(dst, uint64(groups)<<1|1)
			packed := make([]byte, groups*int(width)+8)
			for i, x := range numbers[:min(n, len(numbers))] {
				bit := uint(i) * width
				le := binary.LittleEndian
				le.PutUint64(packed[bit/8:], le.Uint64(packed[bit/8:])|uint64(x)<<(bit%8))
			}
			dst = append(dst, packed[:groups*int(width)]...)
			numbers = numbers[min(n, len(numbers)):]
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(same)<<1)
		for i := range (width + 7) / 8 {
			dst = append(dst, byte(numbers[0]>>(8*i)))
		}
		numbers = numbers[same:]
	}
	return dst
}

// Numbers are read as they were written, of any width, whatever number of them is read at a time.
func TestParquetRuns(t *testing.T) {
	r := random(t)
	for width := range uint(33) {
		numbers := make([]uint32, 3000+r.IntN(1000))
		for i := range numbers {
			if i > 0 && r.IntN(400) > 0 && i%512 > 200 {
				numbers[i] = numbers[i-1]
			} else {
				numbers[i] = uint32(r.Uint64() & (1<<width - 1))
			}
		}
		data := appendRuns(nil, r, numbers, width)
		data = append(data, make([]byte, parquetPadding)...)[:len(data)]
		read, levels := newParquetRuns(data, width), newParquetRuns(data, width)
		for at := 0; at < len(numbers); {
			n := min(1+r.IntN(1+r.IntN(700)), len(numbers)-at)
			got := make([]uint32, n)
			if err := read.takeNumbers(got); err != nil || !slices.Equal(got, numbers[at:at+n]) {
				t.Fatalf("%d bits: numbers %d to %d differ, %v", width, at, at+n, err)
			}
			low := make([]byte, n)
			if x, ok, err := levels.takeEqual(n); err != nil {
				t.Fatal(err)
			} else if ok {
				fill(low, byte(x))
			} else if err := levels.takeLevels(low); err != nil {
				t.Fatal(err)
			}
			for i, x := range low {
				if x != byte(got[i]) {
					t.Fatalf("%d bits: level %d is %d, want %d", width, at+i, x, byte(got[i]))
				}
			}
			at += n
		}
		if err := newRunsEnd(data, width, len(numbers)); width > 8 && err == nil {
			t.Errorf("%d bits: numbers behind the last one", width)
		}
	}
}

// newRunsEnd reads more numbers than there are.
func newRunsEnd(data []byte, width uint, n int) error {
	r := newParquetRuns(data, width)
	return r.takeNumbers(make([]uint32, n+8))
}
