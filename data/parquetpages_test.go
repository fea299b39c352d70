package data

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/ecrec/ecrec/internal/env"
)

// encodedRow has columns in the encodings that parquet-go's decoders read, and in page compressions.
type encodedRow struct {
	Label  int32    `parquet:"label,delta,zstd"`
	I      int64    `parquet:"i,optional,delta,gzip"`
	J      int32    `parquet:"j,delta,brotli"`
	F      float32  `parquet:"f,split,snappy"`
	D      float64  `parquet:"d,optional,split,zstd"`
	S      string   `parquet:"s,optional,delta,snappy"`
	P      string   `parquet:"p,delta,zstd"`
	L      string   `parquet:"l"` // in the default encoding
	U      [16]byte `parquet:"u,uuid,dict"`
	V      [16]byte `parquet:"v,uuid"`
	Same   string   `parquet:"same,dict,zstd"`
	Zero   int64    `parquet:"zero,zstd"`
	Absent *string  `parquet:"absent,optional,dict"`
}

// Values in each encoding and compression are stored as their text in a CSV file is.
func TestParquetEncodings(t *testing.T) {
	rnd := random(t)
	var rows []encodedRow
	csv := bytes.NewBufferString("label,i,j,f,d,s,p,l,u,v,same,zero,absent\n")
	for range 9000 {
		row := encodedRow{Label: rnd.Int32N(2), J: rnd.Int32N(1<<rnd.IntN(31)) - 9, F: float32(rnd.IntN(1000)) / 16, P: fmt.Sprint("prefix", rnd.IntN(500)),
			L: fmt.Sprint(rnd.IntN(1 << rnd.IntN(40))), Same: "x"}
		var i, d, s string
		if rnd.IntN(3) > 0 {
			row.I, row.D, row.S = rnd.Int64N(1<<rnd.IntN(41))-9, float64(1+rnd.IntN(9999))/32, fmt.Sprint(rnd.Uint64())
			i, d, s = fmt.Sprint(row.I), fmt.Sprint(row.D), row.S
		}
		row.U[rnd.IntN(16)], row.V[rnd.IntN(16)] = byte(rnd.IntN(256)), byte(rnd.IntN(256))
		fmt.Fprintf(csv, "%d,%s,%d,%v,%s,%s,%s,%s,%s,%s,x,0,\n", row.Label, i, row.J, row.F, d, s, row.P, row.L, appendUUID(nil, row.U[:]), appendUUID(nil, row.V[:]))
		rows = append(rows, row)
	}
	columns := CSV{Label: "label", Dense: []string{"i", "j", "f", "d"}, Categorical: []string{"s", "p", "l", "u", "v", "same", "zero", "absent"}}
	o := Options{Format: FormatCSV, CSV: columns, Tables: []int64{1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30, 99, 99, 99}, RecordDir: t.TempDir(),
		Files: []string{writeFile(t, "a.csv", csv.Bytes())}}
	want := readAllOf(t, mustOpen(t, o))
	for range 4 {
		o.Format, o.RecordDir, o.Files = FormatParquet, t.TempDir(), []string{writeParquet(t, rnd, "a", rows,
			parquet.DefaultEncodingFor(parquet.ByteArray, &parquet.DeltaLengthByteArray))}
		got := readAllOf(t, mustOpen(t, o))
		for i := range want.IDs {
			if got.IDs[i] != want.IDs[i] {
				t.Fatalf("sample %d, column %s: id %d, want %d", i/8, columns.Categorical[i%8], got.IDs[i], want.IDs[i])
			}
		}
		for i := range want.Dense {
			if got.Dense[i] != want.Dense[i] {
				t.Fatalf("sample %d, column %s: %v, want %v", i/4, columns.Dense[i%4], got.Dense[i], want.Dense[i])
			}
		}
	}
}

// Memory for a page grows with what is decompressed. A size that a header names takes none.
func TestParquetPageSizes(t *testing.T) {
	content := make([]byte, 3<<20)
	pack, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	compressed := map[format.CompressionCodec][]byte{format.Snappy: snappy.Encode(nil, content), format.Zstd: pack.EncodeAll(content, nil)}
	for _, codec := range []format.CompressionCodec{format.Gzip, format.Brotli} {
		if compressed[codec], err = parquet.LookupCompressionCodec(codec).Encode(nil, content); err != nil {
			t.Fatal(err)
		}
	}
	for codec, raw := range compressed {
		for _, size := range []int{len(content), len(content) - 1, len(content) + 1, 1 << 30, 0} {
			p := &parquetPages{codec: codec, leaf: leafOf(t), unpacker: new(unpacker)}
			for range 2 {
				page, err := p.unpackPage(append([]byte("ab"), raw...), size+2, 2)
				if size == len(content) && (err != nil || string(page[:2]) != "ab" || !bytes.Equal(page[2:], content) || cap(page) < len(page)+parquetPadding) {
					t.Errorf("%v: a page of %d bytes, %v", codec, len(page), err)
				}
				if size != len(content) && err == nil {
					t.Errorf("%v: a page has %d bytes, its header names %d", codec, len(content), size)
				}
			}
			if cap(p.memory) > 16<<20 {
				t.Errorf("%v: %d bytes of memory for a page that names %d", codec, cap(p.memory), size)
			}
		}
	}
}

// leafOf is a column of a file.
func leafOf(t *testing.T) *parquet.Column {
	t.Helper()
	file := writeParquet(t, random(t), "x.parquet", []struct {
		X string `parquet:"x"`
	}{{"x"}})
	f, err := openParquet(env.Real(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.file.Close()
	return leavesOf(f.root, 0, nil)[0].Column
}
