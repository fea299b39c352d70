package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var specs = []Spec{
	{"emb_l.0.weight", []int64{3, 2}, ""},
	{"empty", []int64{0, 4}, U64},
	{"quote \" and ü", []int64{1}, U64},
	{"scalar", []int64{}, F32},
}

func data(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

func TestWriteThenRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.safetensors")
	w, err := Create(path, specs, map[string]string{"ecrec.note": "quote \" and ü\n"})
	if err != nil {
		t.Fatal(err)
	}
	all := data(24 + 8 + 4)
	for i := 0; i < len(all); i += 5 { // pieces that cross tensors
		if _, err := w.Write(all[i:min(i+5, len(all))]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("before Commit the file is there (%v)", err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	w.Abort()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !f.IsOwn() || f.Metadata["ecrec.note"] != "quote \" and ü\n" || f.Metadata["format"] != "pt" {
		t.Errorf("the metadata is %q", f.Metadata)
	}
	if len(f.Tensors()) != len(specs) {
		t.Fatalf("%d tensors, want %d", len(f.Tensors()), len(specs))
	}
	var got []byte
	for _, s := range specs {
		x, ok := f.Tensor(s.Name)
		if !ok || len(x.Shape) != len(s.Shape) {
			t.Fatalf("tensor %q: found %v, shape %v", s.Name, ok, x.Shape)
		}
		b, err := io.ReadAll(io.NewSectionReader(x, 0, x.Size()))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b...)
	}
	if !bytes.Equal(got, all) {
		t.Error("data read back differs")
	}
	if _, ok := f.Tensor("other"); ok {
		t.Error("found a tensor that is not there")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("folder holds %v", entries)
	}
}

func TestWriterCountsBytes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m")
	w, err := Create(path, specs, map[string]string{"ecrec.note": "quote \" and ü\n"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data(37)); err == nil || !strings.Contains(err.Error(), "1 bytes more") {
		t.Errorf("too much data gave %v", err)
	}
	if _, err := w.Write(data(30)); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err == nil || !strings.Contains(err.Error(), "6 bytes of tensor data were never written") {
		t.Errorf("too little data gave %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("folder holds %v", entries)
	}
	for _, bad := range [][]Spec{
		{{Name: "a", Shape: []int64{-1}}}, {{Shape: []int64{1}}}, {{Name: "a"}, {Name: "a"}}, {{Name: metadataKey}},
		{{Name: "a", Shape: []int64{1 << 40, 1 << 40}}}, {{"a", []int64{1 << 59}, F32}, {"b", []int64{1 << 58}, U64}},
		{{"a", nil, "F16"}},
	} {
		if _, err := Create(path, bad, nil); err == nil {
			t.Errorf("specs %v gave no error", bad)
		}
	}
}

// image returns a file with this header and n bytes of data.
func image(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data(n)...)
}

const entry = `"dtype":"F32","shape":[2],"data_offsets":`

func TestBadFiles(t *testing.T) {
	for _, e := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "too few"},
		{"short", data(7), "too few"},
		{"huge header", binary.LittleEndian.AppendUint64(nil, 1<<63), "does not fit"},
		{"header beyond the file", image("{}", 0)[:9], "does not fit"},
		{"not JSON", image("hello", 0), "not JSON"},
		{"not an object", image("[]", 0), "not a JSON object"},
		{"cut JSON", image(`{"a":{`+entry+`[0,8]}`, 8), "not JSON"},
		{"after the object", image("{} {}", 0), "continues after"},
		{"name twice", image(`{"a":{`+entry+`[0,8]},"a":{`+entry+`[8,16]}}`, 16), `names "a" twice`},
		{"half precision", image(`{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}`, 4), `"F16"; only F32, I32 and U64`},
		{"no shape", image(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4), "no shape"},
		{"one offset", image(`{"a":{`+entry+`[0]}}`, 8), "1 data_offsets"},
		{"size and shape differ", image(`{"a":{`+entry+`[0,4]}}`, 4), "takes 8 bytes"},
		{"offsets overflow", image(`{"a":{`+entry+`[9223372036854775800,-8]}}`, 8), "takes 8 bytes"},
		{"shape overflows", image(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0), "impossible shape"},
		{"negative dimension", image(`{"a":{"dtype":"F32","shape":[-1,-2],"data_offsets":[0,8]}}`, 8), "negative dimension"},
		{"too many dimensions", image(`{"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}}`, 8), "9 dimensions"},
		{"overlap", image(`{"a":{`+entry+`[0,8]},"b":{`+entry+`[4,12]}}`, 12), "overlaps"},
		{"gap", image(`{"a":{`+entry+`[0,8]},"b":{`+entry+`[12,20]}}`, 20), "belong to no tensor"},
		{"cut data", image(`{"a":{`+entry+`[0,8]}}`, 7), "cut short"},
		{"more data", image(`{"a":{`+entry+`[0,8]}}`, 9), "file holds 9"},
		{"metadata of numbers", image(`{"__metadata__":{"a":1}}`, 0), "object of strings"},
	} {
		t.Run(e.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.safetensors")
			if err := os.WriteFile(path, e.file, 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Open(path)
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), e.want) || !strings.HasPrefix(err.Error(), path) {
				t.Errorf("got %v; want ErrFormat with %q", err, e.want)
			}
		})
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("a missing file gave %v", err)
	}
}

func TestOrderOfHeaderIsFree(t *testing.T) {
	b := image(`{"b":{`+entry+`[8,16]},"__metadata__":{"format":"pt"},"a":{`+entry+`[0,8]}}`, 16)
	f, err := newFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if f.tensors[0].Name != "a" || f.tensors[1].Name != "b" {
		t.Errorf("order %v", f.tensors)
	}
}

// FuzzOpen: any bytes give an error, or tensors that cover the data exactly.
func FuzzOpen(f *testing.F) {
	f.Add(image(`{"a":{`+entry+`[0,8]}}`, 8))
	f.Add(image(`{"__metadata__":{"k":"v"},"b":{`+entry+`[8,16]},"a":{`+entry+`[0,8]}}`, 16))
	f.Add(image(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   `, 4))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := newFile(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		total := int64(0)
		for _, x := range file.Tensors() {
			n, err := x.Bytes()
			if err != nil || n != x.Size() {
				t.Fatalf("tensor %q: shape says %d (%v), data is %d", x.Name, n, err, x.Size())
			}
			if _, err := io.Copy(io.Discard, x); err != nil {
				t.Fatal(err)
			}
			total += n
		}
		if n := int64(binary.LittleEndian.Uint64(b)); 8+n+total != int64(len(b)) {
			t.Fatalf("header %d and data %d do not fill %d bytes", n, total, len(b))
		}
	})
}

// A text that a header has no room for comes back as metadata, and a short one stays where it was.
func TestLongText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.safetensors")
	long := strings.Repeat("abcdefgh,", longText/8)
	metadata := map[string]string{"ecrec.long": long, "ecrec.short": "x "}
	w, err := Create(path, []Spec{{"a", []int64{2}, U64}}, metadata)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data(16)); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Metadata["ecrec.long"] != long || f.Metadata["ecrec.short"] != "x " || metadata["ecrec.long"] != long {
		t.Errorf("texts of %d and %d bytes", len(f.Metadata["ecrec.long"]), len(f.Metadata["ecrec.short"]))
	}
	x, ok := f.Tensor("a")
	b := make([]byte, 16)
	if !ok || len(f.Tensors()) != 1 {
		t.Fatalf("tensors %v", f.Tensors())
	}
	if _, err := x.ReadAt(b, 0); err != nil || !bytes.Equal(b, data(16)) {
		t.Errorf("%v, %v", b, err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := binary.LittleEndian.Uint64(raw); n > 1000 || (n+8)%8 != 0 {
		t.Errorf("a header of %d bytes", n)
	}
	bad := bytes.Replace(raw, []byte(`"ecrec.short":`), []byte(`"ecrec.long" :`), 1)
	if _, err := newFile(bytes.NewReader(bad), int64(len(bad))); err == nil || !strings.Contains(err.Error(), "is no text of the metadata") {
		t.Errorf("a text twice: %v", err)
	}
}
