package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ecrec/ecrec/internal/regular"
)

// ErrFormat is wrapped by every error about a file's content.
var ErrFormat = errors.New("safetensors: invalid file")

type formatError struct{ path, problem string }

func (e *formatError) Error() string        { return e.path + ": not a usable safetensors file: " + e.problem }
func (e *formatError) Is(target error) bool { return target == ErrFormat }

// Tensor is one tensor of an open file. Its data is read through the ReaderAt, from 0
// to Size. It is valid until the File is closed.
type Tensor struct {
	Spec
	*io.SectionReader
}

// File is an open file of tensors.
type File struct {
	// Metadata are the texts beside the tensors, by key, without the checksum; nil if there are none.
	Metadata map[string]string

	path    string
	f       *os.File
	tensors []Tensor
	byName  map[string]int
	texts   int64 // bytes of tensors that are texts

	checksum    string
	hasChecksum bool
	sums        sums // of the tensors that were read
}

// Open opens a file and checks its header against its size.
func Open(path string) (*File, error) {
	f, err := regular.Open(path)
	if not := (*regular.Error)(nil); errors.As(err, &not) {
		return nil, &formatError{path, "it is " + not.Kind}
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	file, err := newFile(f, info.Size())
	if err != nil {
		f.Close()
		return nil, &formatError{path, err.Error()}
	}
	file.path, file.f = path, f
	return file, nil
}

// newFile reads the header of a file of size bytes.
func newFile(r io.ReaderAt, size int64) (*File, error) {
	var prefix [8]byte
	if size < int64(len(prefix)) {
		return nil, fmt.Errorf("%d bytes are too few for a header", size)
	}
	if _, err := r.ReadAt(prefix[:], 0); err != nil {
		return nil, fmt.Errorf("cannot read the header: %v", err)
	}
	n := binary.LittleEndian.Uint64(prefix[:])
	if n > maxHeaderBytes || int64(n) > size-int64(len(prefix)) {
		return nil, fmt.Errorf("header of %d bytes does not fit (file %d bytes, limit %d); it is cut short, or a file of another kind", n, size, maxHeaderBytes)
	}
	header := make([]byte, n)
	if _, err := r.ReadAt(header, int64(len(prefix))); err != nil && n > 0 {
		return nil, fmt.Errorf("cannot read the header: %v", err)
	}
	start := int64(len(prefix)) + int64(n)
	all, metadata, err := parseHeader(header, size-start)
	if err != nil {
		return nil, err
	}
	file := &File{Metadata: metadata, byName: make(map[string]int, len(all)), sums: sums{}}
	file.checksum, file.hasChecksum = metadata[checksumKey]
	delete(metadata, checksumKey)
	for _, e := range all {
		t := Tensor{e.Spec, io.NewSectionReader(r, start+e.begin, e.end-e.begin)}
		if e.Type == u8 {
			if err := file.readText(t); err != nil {
				return nil, err
			}
			continue
		}
		file.byName[e.Name] = len(file.tensors)
		file.tensors = append(file.tensors, t)
	}
	return file, nil
}

// readText adds a tensor that is a text to the metadata.
func (f *File) readText(t Tensor) error {
	_, ok := f.Metadata[t.Name]
	if f.texts += t.Size(); ok || f.texts > maxTextBytes {
		return fmt.Errorf("tensor %q of %d bytes is no text of the metadata; only F32, I32 and U64 are read as tensors, so convert it first", t.Name, t.Size())
	}
	b := make([]byte, t.Size())
	if _, err := t.ReadAt(b, 0); err != nil && len(b) > 0 {
		return fmt.Errorf("cannot read %q: %v", t.Name, err)
	}
	if f.Metadata == nil {
		f.Metadata = map[string]string{}
	}
	f.Metadata[t.Name] = strings.TrimRight(string(b), " ")
	return nil
}

// Tensors lists the tensors in the order of their data.
func (f *File) Tensors() []Tensor { return f.tensors }

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// IsOwn reports whether ecrec wrote the file.
func (f *File) IsOwn() bool { return f.Metadata[producerKey] == producer }

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }
