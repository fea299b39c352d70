package data

import (
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/zeebo/xxh3"
)

// Hashes of plain texts of any sizes are those of each text, whatever number is read at a time, and a page that is cut short is an error.
func TestParquetHashes(t *testing.T) {
	r := random(t)
	for range 300 {
		var want []uint64
		var ends []int
		var page []byte
		most := 1 + r.IntN(12)
		for range 1 + r.IntN(200) {
			text := make([]byte, 8)
			if r.IntN(20) == 0 {
				text = make([]byte, r.IntN(most))
			}
			for i := range text {
				text[i] = byte(r.Uint32())
			}
			page = append(binary.LittleEndian.AppendUint32(page, uint32(len(text))), text...)
			want, ends = append(want, xxh3.Hash(text)), append(ends, len(page))
		}
		v := parquetValues{rest: page}
		for at := 0; at < len(want); {
			got := make([]uint64, min(1+r.IntN(20), len(want)-at))
			if err := v.nextHashes(got); err != nil {
				t.Fatal(err)
			}
			for i, h := range got {
				if h != want[at+i] {
					t.Fatalf("text %d of %d has another hash", at+i, len(want))
				}
			}
			if at += len(got); len(v.rest) != len(page)-ends[at-1] {
				t.Fatalf("%d bytes follow text %d, want %d", len(v.rest), at-1, len(page)-ends[at-1])
			}
		}
		v.rest = page[:r.IntN(len(page))]
		if err := v.nextHashes(make([]uint64, len(want))); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("a page that is cut short: %v", err)
		}
	}
}
