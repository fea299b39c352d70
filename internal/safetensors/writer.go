package safetensors

import (
	"bufio"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/internal/atomicfile"
)

// Writer streams tensors into a file, in the order of its specs.
type Writer struct {
	path string
	file *atomicfile.File
	buf  *bufio.Writer
	left int64 // bytes of data not yet written

	sums       sums
	checksumAt int64  // its place in the file
	specs      []Spec // the tensors not yet begun
	tensor     summed // the one whose data comes
}

// bufferBytes is large enough that writes of single rows cost no system call
// each.
const bufferBytes = 1 << 20

// Create starts the file at path with tensors of specs. It adds "format", "producer" and the checksum to the metadata. Texts of
// the metadata that a header has no room for become tensors before the others.
func Create(path string, specs []Spec, metadata map[string]string) (*Writer, error) {
	members := map[string]string{producerKey: producer}
	maps.Copy(members, metadata)
	members[checksumKey] = noChecksum
	checked := sums{}
	checked.addTexts(members)
	texts, long := moveTexts(members)
	begin, dataBytes, err := beginning(append(long, specs...), members)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	file, err := atomicfile.Create(path)
	if err != nil {
		return nil, err
	}
	w := &Writer{path: path, file: file, buf: bufio.NewWriterSize(file, bufferBytes), left: dataBytes,
		sums: checked, checksumAt: findChecksum(begin), specs: specs, tensor: summed{hash: xxh3.New()}}
	if _, err := w.buf.Write(begin); err != nil {
		file.Abort()
		return nil, err
	}
	for _, text := range texts {
		if _, err := w.buf.WriteString(text); err != nil {
			file.Abort()
			return nil, err
		}
		w.left -= int64(len(text))
	}
	return w, nil
}

// moveTexts removes long texts from the metadata. It returns them in the order of their keys, padded with spaces so that the
// tensors after them are aligned, and the tensors that they are in a file.
func moveTexts(metadata map[string]string) (texts []string, long []Spec) {
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		text := metadata[key]
		if len(text) <= longText {
			continue
		}
		delete(metadata, key)
		text += strings.Repeat(" ", -len(text)&7)
		texts, long = append(texts, text), append(long, Spec{Name: key, Shape: []int64{int64(len(text))}, Type: u8})
	}
	return texts, long
}

// Write appends little-endian data: of the first tensor, then of the
// second, and so on.
func (w *Writer) Write(p []byte) (int, error) {
	if int64(len(p)) > w.left {
		return 0, fmt.Errorf("%s: %d bytes more than its tensors hold", w.path, int64(len(p))-w.left)
	}
	n, err := w.buf.Write(p)
	w.left -= int64(n)
	w.addData(p[:n])
	return n, err
}

// addData adds data to the sums of its tensors.
func (w *Writer) addData(p []byte) {
	for len(p) > 0 {
		for w.tensor.left == 0 {
			w.beginTensor()
		}
		n := min(w.tensor.left, int64(len(p)))
		w.tensor.add(p[:n], w.sums)
		p = p[n:]
	}
}

// beginTensor begins the sum of the next tensor.
func (w *Writer) beginTensor() {
	s := &w.specs[0]
	w.specs = w.specs[1:]
	w.tensor.part = tensorPart(s)
	w.tensor.left, _ = s.Bytes() // checked in Create
	w.tensor.hash.Reset()
	w.tensor.add(nil, w.sums)
}

// Commit completes the file and renames it to its path. All data must have been written.
func (w *Writer) Commit() error {
	if w.left != 0 {
		w.file.Abort()
		return fmt.Errorf("%s: %d bytes of tensor data were never written", w.path, w.left)
	}
	for len(w.specs) > 0 { // they are empty
		w.beginTensor()
	}
	err := w.buf.Flush()
	if err == nil {
		_, err = w.file.WriteAt([]byte(w.sums.checksum()), w.checksumAt)
	}
	if err != nil {
		w.file.Abort()
		return err
	}
	return w.file.Commit()
}

// Abort removes the file. After Commit it does nothing.
func (w *Writer) Abort() { w.file.Abort() }
