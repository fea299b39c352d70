package numpytest

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"strings"
	"testing"
)

// Day is samples, which Write writes as the files of a day.
type Day struct {
	IDs     [][][]int64 // of each feature and sample
	Numbers [][]float32
	Labels  []float64
	// The types of the arrays, as NumPy writes them; "": <i4.
	IDType, LabelType string
}

// Write writes the files of a day, of which path is that of the ids.
func (d *Day) Write(t testing.TB, path string) {
	t.Helper()
	day, _, _ := strings.Cut(path, "_sparse")
	write := func(path string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	n := len(d.Labels)
	var labels, dense []float64
	labels = append(labels, d.Labels...)
	for _, row := range d.Numbers {
		for _, x := range row {
			dense = append(dense, float64(x))
		}
	}
	write(day+"_labels.npy", Array(1, orI4(d.LabelType), []int{n, 1}, labels))
	write(day+"_dense.npy", Array(1, "<f4", []int{n, len(dense) / n}, dense))
	if strings.HasSuffix(path, "_sparse.npy") {
		var ids []float64
		for i := range n {
			for _, feature := range d.IDs {
				ids = append(ids, float64(feature[i][0]))
			}
		}
		write(path, Array(1, orI4(d.IDType), []int{n, len(d.IDs)}, ids))
		return
	}
	var members []Member
	for f, feature := range d.IDs {
		var ids []float64
		for _, bag := range feature {
			for _, id := range bag {
				ids = append(ids, float64(id))
			}
		}
		members = append(members, Member{Name: fmt.Sprint(f, ".npy"), Content: Array(1+f%3, orI4(d.IDType), []int{n, len(feature[0])}, ids)})
	}
	write(path, Archive(members...))
}

func orI4(kind string) string {
	if kind == "" {
		return "<i4"
	}
	return kind
}

// Array is an array in a version of NumPy's format.
func Array(version int, kind string, shape []int, numbers []float64) []byte {
	text := strings.ReplaceAll(strings.Trim(fmt.Sprint(shape), "[]"), " ", ", ")
	if len(shape) == 1 {
		text += ","
	}
	b := Header(version, fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", kind, text))
	le := binary.LittleEndian
	for _, x := range numbers {
		switch kind {
		case "<i4":
			b = le.AppendUint32(b, uint32(int32(x)))
		case "<i8":
			b = le.AppendUint64(b, uint64(int64(x)))
		case "<f4":
			b = le.AppendUint32(b, math.Float32bits(float32(x)))
		default:
			b = le.AppendUint64(b, math.Float64bits(x))
		}
	}
	return b
}

// Header is the beginning of an array, with the text of a dictionary.
func Header(version int, text string) []byte {
	b := append([]byte("\x93NUMPY"), byte(version), 0)
	text += strings.Repeat(" ", 127-(len(b)+4+len(text))%64) + "\n"
	if version == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	}
	return append(b, text...)
}

// Member is a member of a zip file. Its sizes and its place are in zip64 fields, as Python writes them for large
// files.
type Member struct {
	Name    string
	Content []byte
	Method  uint16 // 0: it is not compressed
	Flags   byte
}

// Archive is a zip file of members.
func Archive(members ...Member) []byte {
	le := binary.LittleEndian
	var b, directory []byte
	wide := func(b []byte, numbers ...int) []byte {
		b = le.AppendUint16(le.AppendUint16(b, 1), uint16(8*len(numbers)))
		for _, n := range numbers {
			b = le.AppendUint64(b, uint64(n))
		}
		return b
	}
	for _, m := range members {
		at, n := len(b), len(m.Content)
		b = append(append(b, "PK\x03\x04"...), 45, 0, m.Flags, 0)
		b = append(le.AppendUint16(b, m.Method), 0, 0, 0, 0) // no time
		b = le.AppendUint32(b, crc32.ChecksumIEEE(m.Content))
		b = append(b, "\xff\xff\xff\xff\xff\xff\xff\xff"...)
		b = le.AppendUint16(le.AppendUint16(b, uint16(len(m.Name))), 20)
		b = append(wide(append(b, m.Name...), n, n), m.Content...)

		directory = append(append(directory, "PK\x01\x02"...), 45, 3, 45, 0, m.Flags, 0)
		directory = append(le.AppendUint16(directory, m.Method), 0, 0, 0, 0)
		directory = le.AppendUint32(directory, crc32.ChecksumIEEE(m.Content))
		directory = append(directory, "\xff\xff\xff\xff\xff\xff\xff\xff"...)
		directory = le.AppendUint16(le.AppendUint16(directory, uint16(len(m.Name))), 28)
		directory = append(directory, make([]byte, 10)...)
		directory = append(directory, "\xff\xff\xff\xff"...)
		directory = wide(append(directory, m.Name...), n, n, at)
	}
	begin := len(b)
	b = append(b, directory...)
	end := len(b)
	b = le.AppendUint64(append(b, "PK\x06\x06"...), 44)
	b = append(b, make([]byte, 28)...)
	b = le.AppendUint64(le.AppendUint64(b, uint64(len(directory))), uint64(begin))
	b = le.AppendUint64(append(b, "PK\x06\x07\x00\x00\x00\x00"...), uint64(end))
	b = append(b, "\x01\x00\x00\x00"...)
	b = append(append(b, "PK\x05\x06"...), make([]byte, 8)...)
	return append(b, "\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00"...)
}
