package safetensors

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
)

// checksumKey is the member of the metadata that holds the checksum of a file: 32 hexadecimal digits.
const checksumKey = "ecrec.checksum"

// checkedPrefix begins the keys of the texts that a checksum covers. Other programs may change the other texts.
const checkedPrefix = "ecrec."

// noChecksum stands in a header until the data is written.
var noChecksum = strings.Repeat("0", 32)

// sums are the XXH3 (128 bits) of the parts of a file by the part's name: of the data of a tensor, or of a text.
type sums map[string]xxh3.Uint128

// tensorPart is the name of a tensor's part. It has all that gives the data a meaning.
func tensorPart(s *Spec) string { return fmt.Sprintf("tensor %q %s %v", s.Name, s.dtype(), s.Shape) }

// addTexts adds the texts of the metadata that a checksum covers.
func (s sums) addTexts(metadata map[string]string) {
	for key, text := range metadata {
		if strings.HasPrefix(key, checkedPrefix) && key != checksumKey {
			s[fmt.Sprintf("text %q", key)] = xxh3.HashString128(text)
		}
	}
}

// checksum returns the hash of the names and sums of all parts in the order of the names. The order of the tensors in the
// file does not matter.
func (s sums) checksum() string {
	h := xxh3.New()
	for _, part := range slices.Sorted(maps.Keys(s)) {
		sum := s[part].Bytes()
		_, _ = h.WriteString(part) // never fails
		_, _ = h.Write(sum[:])
	}
	return fmt.Sprintf("%x", h.Sum128().Bytes())
}

// findChecksum returns the place of the checksum in the beginning of a file.
func findChecksum(begin []byte) int64 {
	key := `"` + checksumKey + `":"` // its quotes are escaped within a text or a name
	return int64(bytes.Index(begin, []byte(key)) + len(key))
}

// summed adds up the data of a tensor as it is read or written from its beginning to its end.
type summed struct {
	part string
	left int64
	hash *xxh3.Hasher
}

// add adds data. After the last of it, it sets the sum of the part.
func (t *summed) add(b []byte, to sums) {
	_, _ = t.hash.Write(b) // never fails
	if t.left -= int64(len(b)); t.left == 0 {
		to[t.part] = t.hash.Sum128()
	}
}

// Reader returns a reader of a tensor's data. Verify does not read a tensor again that a reader has read to its end.
func (f *File) Reader(t Tensor) io.Reader {
	in := io.NewSectionReader(t, 0, t.Size())
	if !f.hasChecksum {
		return in
	}
	r := &dataReader{in, f.sums, summed{tensorPart(&t.Spec), t.Size(), xxh3.New()}}
	r.add(nil, r.sums)
	return r
}

type dataReader struct {
	in   io.Reader
	sums sums
	summed
}

func (r *dataReader) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	if n > 0 {
		r.add(b[:n], r.sums)
	}
	return n, err
}

// Verify compares tensors and texts with the checksum in the metadata. It reads the data that no Reader has read to its
// end. A file without a checksum is as it should be.
func (f *File) Verify() error {
	if !f.hasChecksum {
		return nil
	}
	buffer := make([]byte, bufferBytes)
	for _, t := range f.tensors {
		if _, ok := f.sums[tensorPart(&t.Spec)]; ok {
			continue
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, f.Reader(t), buffer); err != nil {
			return fmt.Errorf("%s: %s: %w", f.path, t.Name, err)
		}
	}
	f.sums.addTexts(f.Metadata)
	if f.sums.checksum() != f.checksum {
		return &formatError{f.path, "its checksum does not match: it is damaged, so copy or export it again; or another program changed it and kept " + checksumKey + ", which must go then"}
	}
	return nil
}

// HasChecksum reports whether there is a checksum for Verify.
func (f *File) HasChecksum() bool { return f.hasChecksum }
