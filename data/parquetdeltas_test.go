package data

import (
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// A page in a delta encoding takes no memory for values that it only names.
func TestParquetDeltasNameTooMany(t *testing.T) {
	header := func(values uint64) []byte {
		var b []byte
		for _, x := range []uint64{128, 4, values, 0} {
			b = binary.AppendUvarint(b, x)
		}
		return append(b, make([]byte, 100)...) // blocks without differences
	}
	one := header(1)[:5]
	for e, page := range map[format.Encoding][]byte{format.DeltaBinaryPacked: header(1001), format.DeltaLengthByteArray: header(1001),
		format.DeltaByteArray: append(one, header(1001)...)} {
		if err := checkDeltas(e, page, 1000); err == nil {
			t.Errorf("%v: a page of 1000 values names 1001, and is read", e)
		}
	}
	for i := range one {
		if _, err := skipDeltas(one[:i], 1000); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes of a header: %v", i, err)
		}
	}
}

// skipDeltas returns the bytes that follow what a writer encoded.
func TestSkipDeltas(t *testing.T) {
	rnd := random(t)
	for range 300 {
		values := make([]int32, rnd.IntN(2000))
		shift := rnd.IntN(32)
		for i := range values {
			values[i] = rnd.Int32() >> shift
		}
		b, err := parquet.DeltaBinaryPacked.EncodeInt32(nil, values)
		if err != nil {
			t.Fatal(err)
		}
		rest, err := skipDeltas(append(b, "after"...), len(values))
		if err != nil || string(rest) != "after" {
			t.Fatalf("%d values of %d bits: %q follows, %v", len(values), 31-shift, rest, err)
		}
		if _, err := skipDeltas(b, len(values)-1); len(values) > 0 && err == nil {
			t.Fatalf("%d values are read as %d", len(values), len(values)-1)
		}
	}
}
