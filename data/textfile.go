package data

import (
	"bufio"
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
		return unpackText(e, f, size, kind), nil
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

// Text is unpacked ahead of the parsers by a goroutine of its own, in blocks.
const (
	unpackBytes = 1 << 20
	unpackAhead = 4 // blocks
)

// unpackedText is the text of a compressed file.
type unpackedText struct {
	name  string
	full  *env.Queue[unpackedBlock]
	free  *env.Queue[[]byte]
	ended *env.Event

	block unpackedBlock
	rest  []byte // of block
}

// unpackedBlock is some of the text. The last block has end or err set.
type unpackedBlock struct {
	text      []byte
	fileBytes int64 // of the compressed file, up to the end of the block
	end       bool
	err       error
}

// unpackText starts to unpack a file, which it closes at the end.
func unpackText(e env.Env, f *os.File, size int64, kind *fileKind) *unpackedText {
	r := &unpackedText{name: f.Name(), ended: env.NewEvent(e, "unpack ended"),
		full: env.NewQueue[unpackedBlock](e, "unpack full", unpackAhead), free: env.NewQueue[[]byte](e, "unpack free", unpackAhead)}
	for range unpackAhead {
		r.free.Put(nil)
	}
	in := newCountedFile(e, f, size)
	e.Go("unpack text", func() {
		defer r.ended.Set(nil)
		defer f.Close()
		unpackAll(in, kind, r.free, r.full)
	})
	return r
}

// unpackAll puts the text of a file into full, until its end or that of the queues.
func unpackAll(in *countedFile, kind *fileKind, free *env.Queue[[]byte], full *env.Queue[unpackedBlock]) {
	text, err := kind.unpack(in)
	if err == nil {
		defer text.Close()
	}
	for {
		buf, ok := free.Get()
		if !ok {
			return
		}
		if buf == nil {
			buf = make([]byte, unpackBytes)
		}
		n := 0
		for err == nil && n < len(buf) {
			var k int
			k, err = text.Read(buf[n:])
			n += k
		}
		b := unpackedBlock{text: buf[:n], fileBytes: in.bytesRead()}
		switch {
		case err == io.EOF:
			b.end = true
		case err != nil:
			b.err = in.explainError(kind, err)
		}
		if !full.Put(b) || err != nil {
			return
		}
	}
}

func (r *unpackedText) fileBytes() int64 { return r.block.fileBytes }

func (r *unpackedText) textLeft() int64 {
	if len(r.rest) == 0 && r.block.end {
		return 0
	}
	return math.MaxInt64
}

// fetchBlock waits for the next block if the current one is used up and not the last.
func (r *unpackedText) fetchBlock() error {
	for len(r.rest) == 0 && !r.block.end {
		if r.block.err != nil {
			return r.block.err
		}
		if r.block.text != nil {
			r.free.Put(r.block.text[:cap(r.block.text)])
		}
		next, ok := r.full.Get()
		if !ok {
			panic("data: text is read after its reader was closed")
		}
		r.block, r.rest = next, next.text
	}
	return nil
}

func (r *unpackedText) readText(b []byte) (int, error) {
	if err := r.fetchBlock(); err != nil {
		return 0, err
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, r.fetchBlock() // so that textLeft reports the end as soon as it is reached
}

func (r *unpackedText) skipText(n int64) (int64, error) {
	if err := r.fetchBlock(); err != nil {
		return 0, err
	}
	n = min(n, int64(len(r.rest)))
	r.rest = r.rest[n:]
	return n, r.fetchBlock()
}

func (r *unpackedText) closeFile() {
	r.free.Close()
	r.full.Close()
	_ = r.ended.Wait()
}

// countedFile reads a file through a buffer, and counts the bytes that were used.
type countedFile struct {
	env  env.Env
	file *os.File
	what string // for env.Do
	size int64
	off  int64 // of the end of the buffer
	// in is the buffer. Decompressors read it by ReadByte, so that they take no byte too many; gzip has a
	// faster loop for a bufio.Reader than for another reader.
	in *bufio.Reader
}

// inputBytes is the size of the buffer.
const inputBytes = 256 << 10

func newCountedFile(e env.Env, f *os.File, size int64) *countedFile {
	c := &countedFile{env: e, file: f, what: "read " + f.Name(), size: size}
	c.in = bufio.NewReaderSize(c, inputBytes)
	return c
}

// bytesRead is how many bytes of the file were used.
func (f *countedFile) bytesRead() int64 { return f.off - int64(f.in.Buffered()) }

// Read fills the buffer.
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

// explainError explains why a file cannot be unpacked.
func (f *countedFile) explainError(kind *fileKind, err error) error {
	if _, ok := err.(*os.PathError); ok {
		return fmt.Errorf("read %s: %w", f.file.Name(), err)
	}
	at := f.bytesRead()
	if at == f.size && err == io.ErrUnexpectedEOF {
		return fileErr(f.file.Name(), "it is %s and ends within a stream, at byte %d; copy the file again, and compare its size", kind.is, at)
	}
	return fileErr(f.file.Name(), "it is %s and damaged near byte %d of %d (%v); copy the file again, and compare its checksum",
		kind.is, at, f.size, err)
}
