package data

import (
	"fmt"
	"io"
	"math"
	"os"

	"github.com/ecrec/ecrec/internal/env"
)

// textReader reads the text of one source file, from its beginning on.
type textReader interface {
	// readText reads the next text into b: at least a byte, unless textLeft is 0.
	readText(b []byte) (n int, err error)
	// skipText skips up to n bytes of text, and returns how many it skipped: at least one,
	// unless textLeft or n is 0.
	skipText(n int64) (skipped int64, err error)
	// textLeft is the number of bytes of text that follow, if it is known, else
	// math.MaxInt64. It is 0 only at the end.
	textLeft() int64
	// fileBytes is how many bytes of the file were needed for the text read so far.
	fileBytes() int64
	// closeFile releases the file.
	closeFile()
}

// openTextFile opens a source file, which may be compressed.
func openTextFile(e env.Env, name string) (textReader, error) {
	if name == Stdin {
		r, err := openStdin(e)
		if err != nil {
			return nil, err
		}
		if kind := sniff(r.head(headBytes)); kind != nil {
			return nil, fileErr("stdin", "it is %s, and rows are read as text; unpack it before the pipe, or name the file", kind.is)
		}
		return r, nil
	}
	f, size, err := openFile(e, name)
	if err != nil {
		return nil, err
	}
	head, err := readHead(e, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	if kind := sniff(head); kind != nil && kind.unpack != nil {
		return unpackText(e, f, size, kind)
	}
	return &plainText{env: e, file: f, size: size, left: size}, nil
}

// plainText is text as it is. Its size is fixed when the file is opened.
type plainText struct {
	env  env.Env
	file *os.File
	size int64
	left int64
}

func (r *plainText) textLeft() int64  { return r.left }
func (r *plainText) fileBytes() int64 { return r.size - r.left }
func (r *plainText) closeFile()       { r.file.Close() }

func (r *plainText) readText(b []byte) (n int, err error) {
	b = b[:min(int64(len(b)), r.left)]
	err = r.env.Do("read "+r.file.Name(), func() error {
		n, err = r.file.Read(b)
		return err
	})
	r.left -= int64(n)
	if err == io.EOF {
		return n, fileErr(r.file.Name(), "it became shorter while it was read: %d bytes are gone", r.left)
	}
	if err != nil {
		return n, fmt.Errorf("read text: %w", err)
	}
	return n, nil
}

func (r *plainText) skipText(n int64) (int64, error) {
	n = min(n, r.left)
	if _, err := r.file.Seek(n, io.SeekCurrent); err != nil {
		return 0, fmt.Errorf("skip text: %w", err)
	}
	r.left -= n
	return n, nil
}

const (
	// Text is unpacked in blocks: a read ends at a multiple of unpackBytes at the latest, so that chunks of a file begin
	// at the same places with each decompressor.
	unpackBytes = 1 << 20
	// aheadBytes is how much text is unpacked beyond a block: a decompressor does not stop at each byte.
	aheadBytes = 1 << 10
)

// unpackedText is the text of a compressed file. Its caller unpacks it: a goroutine that reads ahead of the parsers.
type unpackedText struct {
	in    *countedFile
	kind  *fileKind
	text  textUnpacker
	off   int64  // of the text
	ahead []byte // the next text, in space
	space [aheadBytes]byte
	end   bool   // no text follows the one ahead
	skip  []byte // memory for skipped text
}

// textUnpacker reads the text of a compressed file.
type textUnpacker interface {
	io.ReadCloser
	// inputBytes is how many bytes of the file were needed for the text read so far.
	inputBytes() int64
}

// unpackText begins to unpack a file, which belongs to the result.
func unpackText(e env.Env, f *os.File, size int64, kind *fileKind) (textReader, error) {
	r := &unpackedText{in: &countedFile{env: e, file: f, what: "read " + f.Name(), size: size}, kind: kind}
	text, err := kind.unpack(r.in)
	if err != nil {
		f.Close()
		return nil, err
	}
	r.text = text
	return r, nil
}

func (r *unpackedText) fileBytes() int64 { return r.text.inputBytes() }

func (r *unpackedText) textLeft() int64 {
	if len(r.ahead) == 0 && r.end {
		return 0
	}
	return math.MaxInt64
}

// unpackSome unpacks into b.
func (r *unpackedText) unpackSome(b []byte) (int, error) {
	n, err := r.text.Read(b)
	switch {
	case err == io.EOF:
		r.end = true
	case err != nil:
		return n, r.in.explainError(r.kind, err, r.text.inputBytes())
	}
	return n, nil
}

func (r *unpackedText) readText(b []byte) (n int, err error) {
	block := int(min(int64(len(b)), unpackBytes-r.off%unpackBytes))
	n = copy(b[:block], r.ahead)
	r.ahead = r.ahead[n:]
	for n < block && !r.end {
		k, err := r.unpackSome(b[n:min(len(b), block+aheadBytes)])
		if n += k; err != nil {
			return min(n, block), err
		}
	}
	if n > block {
		r.ahead = r.space[:copy(r.space[:], b[block:n])]
		n = block
	}
	for len(r.ahead) == 0 && !r.end { // so that textLeft reports the end as soon as it is reached
		k, err := r.unpackSome(r.space[:])
		if r.ahead = r.space[:k]; err != nil {
			return n, err
		}
	}
	r.off += int64(n)
	return n, nil
}

func (r *unpackedText) skipText(n int64) (int64, error) {
	r.skip = grown(r.skip, unpackBytes)
	k, err := r.readText(r.skip[:min(n, unpackBytes)])
	return int64(k), err
}

func (r *unpackedText) closeFile() {
	r.text.Close()
	r.in.file.Close()
}

// countedFile reads a file, and counts its bytes.
type countedFile struct {
	env  env.Env
	file *os.File
	what string // for env.Do
	size int64
	off  int64
}

func (f *countedFile) Read(b []byte) (n int, err error) {
	err = f.env.Do(f.what, func() error {
		n, err = f.file.ReadAt(b[:min(int64(len(b)), max(f.size-f.off, 0))], f.off)
		return err
	})
	f.off += int64(n)
	switch {
	case n > 0:
		return n, nil
	case err == nil:
		return 0, io.EOF
	}
	return 0, err
}

// explainError explains why a file cannot be unpacked, of which some bytes were used.
func (f *countedFile) explainError(kind *fileKind, err error, at int64) error {
	if _, ok := err.(*os.PathError); ok {
		return fmt.Errorf("read %s: %w", f.file.Name(), err)
	}
	if at == f.size && err == io.ErrUnexpectedEOF {
		return fileErr(f.file.Name(), "it is %s and ends within a stream, at byte %d; copy the file again, and compare its size", kind.is, at)
	}
	return fileErr(f.file.Name(), "it is %s and damaged near byte %d of %d (%v); copy the file again, and compare its checksum",
		kind.is, at, f.size, err)
}
