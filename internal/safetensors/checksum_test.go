package safetensors

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write writes a file with tensors of data, and returns its bytes.
func write(t *testing.T, specs []Spec, metadata map[string]string, all []byte) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.safetensors")
	w, err := Create(path, specs, metadata)
	if err != nil {
		t.Fatal(err)
	}
	for piece := range slices.Chunk(all, 5) { // pieces that cross tensors
		if _, err := w.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// verify opens a file and verifies it.
func verify(file []byte) error {
	f, err := newFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return err
	}
	return f.Verify()
}

// content is a file's text of the key ecrec.note, and its tensors.
func content(t *testing.T, file []byte) string {
	t.Helper()
	f, err := newFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	parts := []string{f.Metadata["ecrec.note"]}
	for _, x := range f.Tensors() {
		b, err := io.ReadAll(f.Reader(x))
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, tensorPart(&x.Spec), string(b))
	}
	return strings.Join(parts, "\x00")
}

// A flipped bit is found, or it changes neither tensors nor texts: it is in another text, in a space, in the name of the
// checksum, or makes a letter of JSON's keys large.
func TestFlippedBits(t *testing.T) {
	file := write(t, specs, map[string]string{"ecrec.note": "note"}, data(24+8+4))
	want, found, missed := content(t, file), 0, 0
	for i := range file {
		for bit := range 8 {
			file[i] ^= 1 << bit
			if verify(file) != nil {
				found++
			} else if missed++; content(t, file) != want {
				t.Errorf("bit %d of byte %d (%q) is missed", bit, i, file[max(0, i-8):min(i+8, len(file))])
			}
			file[i] ^= 1 << bit
		}
	}
	if t.Logf("found %d, missed %d", found, missed); missed > found/4 {
		t.Errorf("%d bits are found, %d are missed", found, missed)
	}
}

// A text that is a tensor of its own is covered too.
func TestFlippedBitInLongText(t *testing.T) {
	file := write(t, specs, map[string]string{"ecrec.long": strings.Repeat("abcdefgh,", longText/8)}, data(24+8+4))
	if err := verify(file); err != nil {
		t.Fatal(err)
	}
	file[len(file)/2] ^= 1
	if err := verify(file); !errors.Is(err, ErrFormat) {
		t.Errorf("got %v", err)
	}
}

// The checksum holds for the tensors in any order. A file without one, or with another program's texts
// beside it, is as it should be.
func TestChecksumOfOtherForms(t *testing.T) {
	file := write(t, specs[2:], map[string]string{"ecrec.note": "x"}, data(8+4))
	f, err := newFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Metadata[checksumKey]; ok || !f.HasChecksum() {
		t.Errorf("metadata %v", f.Metadata)
	}
	header := `{"__metadata__":{"ecrec.note":"x","ecrec.checksum":"` + f.checksum + `","other":"y"},` +
		`"scalar":{"dtype":"F32","shape":[],"data_offsets":[0,4]},` + `"quote \" and ü":{"dtype":"U64","shape":[1],"data_offsets":[4,12]}}`
	turned := append(image(header, 0), append(data(12)[8:], data(8)...)...)
	if err := verify(turned); err != nil {
		t.Errorf("in another order: %v", err)
	}
	for what, change := range map[string][2]string{
		"name": {`"scalar"`, `"scaler"`}, "shape": {`"shape":[1]`, `"shape":[1,1]`}, "checksum": {f.checksum[:8], "0123456-"}, "text": {`"x"`, `"z"`},
	} {
		s := strings.Replace(header, change[0], change[1], 1)
		err := verify(append(image(s, 0), turned[len(turned)-12:]...))
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "checksum does not match") {
			t.Errorf("another %s: %v", what, err)
		}
	}
	if err := verify(image(strings.Replace(header, "ecrec.checksum", "none", 1), 12)); err != nil {
		t.Errorf("no checksum: %v", err)
	}
}

// Verify reads the tensors that no Reader has read to the end, and no others.
func TestVerifyReadsTheRest(t *testing.T) {
	file := write(t, specs, nil, data(24+8+4))
	for read := range 25 {
		for _, damaged := range []bool{false, true} {
			bad := slices.Clone(file)
			f, err := newFile(bytes.NewReader(bad), int64(len(bad)))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(f.Reader(f.tensors[0]), make([]byte, read)); err != nil {
				t.Fatal(err)
			}
			if damaged {
				bad[len(bad)-36] ^= 1 // under the reader
			}
			if got, want := f.Verify() != nil, damaged && read < 24; got != want {
				t.Errorf("after %d bytes were read, damaged %v: found %v, want %v", read, damaged, got, want)
			}
		}
	}
}
