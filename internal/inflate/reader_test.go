package inflate

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	fast "github.com/klauspost/compress/gzip"
)

// texts are texts of several kinds.
func texts() map[string][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n, letters int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.IntN(letters))
		}
		return b
	}
	rows := []byte(nil)
	for range 20_000 {
		for range 8 {
			rows = append(rows, "0123456789abcdef"[r.IntN(16)], "0123456789abcdef"[r.IntN(16)], ',')
		}
		rows = append(rows, '\n')
	}
	uneven := []byte(nil) // long codes
	for i := range 256 {
		uneven = append(uneven, bytes.Repeat([]byte{byte(i)}, 1<<(i%15))...)
	}
	r.Shuffle(len(uneven), func(i, k int) { uneven[i], uneven[k] = uneven[k], uneven[i] })
	far := random(300<<10, 256) // matches at all distances
	for range 20_000 {
		at := r.IntN(len(far) - 300)
		copy(far[at:at+3+r.IntN(256)], far[max(at-1-r.IntN(windowBytes), 0):])
	}
	return map[string][]byte{"empty": nil, "one": {7}, "zeros": make([]byte, 1<<20), "noise": random(400<<10, 256), "two letters": random(400<<10, 2),
		"rows": rows, "uneven": uneven, "far": far}
}

// pack compresses each part as a member.
func pack(t testing.TB, level int, parts ...[]byte) []byte {
	var out bytes.Buffer
	for _, part := range parts {
		w, err := gzip.NewWriterLevel(&out, level)
		if err == nil {
			_, err = w.Write(part)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// readAll reads a file through buffers of a size.
func readAll(packed []byte, size int) (text []byte, z *Reader, err error) {
	z = NewReader(bytes.NewReader(packed))
	for b := make([]byte, size); err == nil; {
		var n int
		n, err = z.Read(b)
		text = append(text, b[:n]...)
	}
	if err == io.EOF {
		err = nil
	}
	return text, z, err
}

// Reader returns the compressed text, for all levels, several members and all sizes of buffers.
func TestReader(t *testing.T) {
	for name, text := range texts() {
		for _, level := range []int{gzip.NoCompression, gzip.BestSpeed, gzip.DefaultCompression, gzip.HuffmanOnly} {
			third := len(text) / 3
			for _, packed := range [][]byte{pack(t, level, text), pack(t, level, text[:third], nil, text[third:])} {
				for _, size := range []int{1000, 40_000, 1 << 20} {
					got, z, err := readAll(packed, size)
					if err != nil || !bytes.Equal(got, text) {
						t.Errorf("%s, level %d, buffers of %d: %d bytes, %v; want %d", name, level, size, len(got), err, len(text))
					}
					if z.InputBytes() != int64(len(packed)) {
						t.Errorf("%s, level %d: %d of %d bytes were read", name, level, z.InputBytes(), len(packed))
					}
				}
			}
		}
	}
}

// Reader is a proper io.Reader, also of an input in small pieces.
func TestReaderIsReader(t *testing.T) {
	text := texts()["rows"][:20_000]
	packed := pack(t, gzip.BestSpeed, text[:5], text[5:])
	if err := iotest.TestReader(NewReader(bytes.NewReader(packed)), text); err != nil {
		t.Error(err)
	}
	if err := iotest.TestReader(NewReader(iotest.OneByteReader(bytes.NewReader(packed))), text); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(NewReader(iotest.TimeoutReader(iotest.HalfReader(bytes.NewReader(packed))))); err != iotest.ErrTimeout {
		t.Errorf("the error of the input is %v, want that of the reader below", err)
	}
}

func BenchmarkReader(b *testing.B) {
	text := texts()["rows"]
	packed := pack(b, gzip.DefaultCompression, text)
	buf := make([]byte, 1<<20)
	for _, way := range []struct {
		name string
		open func(io.Reader) (io.Reader, error)
	}{{"Reader", func(r io.Reader) (io.Reader, error) { return NewReader(r), nil }},
		{"klauspost", func(r io.Reader) (io.Reader, error) { return fast.NewReader(r) }}} {
		b.Run(way.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r, err := way.open(bytes.NewReader(packed))
				for err == nil {
					_, err = r.Read(buf)
				}
				if err != io.EOF {
					b.Fatal(err)
				}
			}
		})
	}
}

// A file that is cut anywhere but between members is an error, in pieces of any size.
func TestCutFiles(t *testing.T) {
	text := texts()["rows"]
	for size := 0; size < 120; size += 11 {
		packed := pack(t, 1+size%9, text[:7*size], text[:size])
		border := len(pack(t, 1+size%9, text[:7*size]))
		for cut := range len(packed) + 1 {
			for _, in := range []io.Reader{bytes.NewReader(packed[:cut]), iotest.OneByteReader(bytes.NewReader(packed[:cut]))} {
				z := NewReader(in)
				got, err := io.ReadAll(z)
				whole := cut == border || cut == len(packed)
				if whole != (err == nil) || err != nil && err != io.ErrUnexpectedEOF || z.InputBytes() != int64(cut) {
					t.Fatalf("%d of %d bytes: %d bytes of text, %v, %d bytes read", cut, len(packed), len(got), err, z.InputBytes())
				}
			}
		}
	}
}

// FuzzReader reads any bytes as compress/gzip does: the same text, or both give an error.
func FuzzReader(f *testing.F) {
	for _, text := range texts() {
		text = text[:min(len(text), 3000)]
		for _, level := range []int{gzip.NoCompression, gzip.BestSpeed, gzip.BestCompression, gzip.HuffmanOnly} {
			f.Add(pack(f, level, text), uint16(len(text)))
			f.Add(pack(f, level, text[:len(text)/2], text[len(text)/2:]), uint16(2000))
		}
	}
	const magic = "\x1f\x8b\x08"
	f.Add([]byte(magic+"\x1e\x00\x00\x00\x00\x00\xff\x02\x00abname\x00comment\x00\x00\x00"), uint16(0))
	f.Fuzz(func(t *testing.T, packed []byte, size uint16) {
		var want []byte
		r, wantErr := gzip.NewReader(bytes.NewReader(packed))
		if wantErr == nil {
			want, wantErr = io.ReadAll(io.LimitReader(r, 4<<20))
			if len(want) == 4<<20 {
				t.Skip("more text than a case needs")
			}
		}
		got, z, err := readAll(packed, int(size)+1)
		if err == gzip.ErrHeader && wantErr == nil && hasReservedFlags(packed) {
			t.Skip("compress/gzip ignores reserved flags")
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("the error is %v, that of compress/gzip %v", err, wantErr)
		}
		if err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%d bytes of text, compress/gzip reads %d", len(got), len(want))
		}
		if n := z.InputBytes(); n < 0 || n > int64(len(packed)) || err == nil && n != int64(len(packed)) {
			t.Fatalf("%d of %d bytes were read, %v", n, len(packed), err)
		}
	})
}

// hasReservedFlags reports whether bytes that may be the header of a member have a reserved flag.
func hasReservedFlags(packed []byte) bool {
	for {
		i := bytes.Index(packed, []byte("\x1f\x8b\x08"))
		if i < 0 || i+3 >= len(packed) {
			return false
		}
		if packed[i+3]&0xe0 != 0 {
			return true
		}
		packed = packed[i+3:]
	}
}
