package directio

import (
	"errors"
	"io"
	"os"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/internal/env"
)

// Reader reads a file from beginning to end, ahead of its user.
type Reader struct {
	env  env.Env
	path string
	f    *os.File
	size int64
	head int // bytes before each block, for the part that Next keeps

	got  int64 // bytes returned
	last block
	hash *xxh3.Hasher

	full, free *env.Queue[block]
	stopped    *env.Event
}

// Open starts reading the file at path. Next can keep up to slack bytes.
func Open(e env.Env, path string, slack int) (*Reader, error) {
	r := &Reader{env: e, path: path, head: roundUp(slack), hash: xxh3.New()}
	if err := e.Do("open "+path, func() (err error) {
		if r.f, err = OpenFile(path, os.O_RDONLY, 0); err != nil {
			return err
		}
		info, err := r.f.Stat()
		if err != nil {
			r.f.Close()
			return err
		}
		r.size = info.Size()
		return nil
	}); err != nil {
		return nil, err
	}
	r.full = env.NewQueue[block](e, "read "+path, Blocks)
	r.free = env.NewQueue[block](e, "to read "+path, Blocks)
	r.stopped = env.NewEvent(e, "reader "+path)
	for range Blocks {
		r.free.Put(block{buf: Aligned(r.head + BlockBytes)})
	}
	e.Go("reader "+path, r.readBlocks)
	return r, nil
}

// readBlocks reads blocks until the end of the file, an error or Close.
func (r *Reader) readBlocks() {
	defer r.stopped.Set(nil)
	for at := int64(0); at < r.size; {
		b, ok := r.free.Get()
		if !ok {
			return
		}
		b.err = r.env.Do("read "+r.path, func() error {
			return Do(r.f, func() (err error) {
				b.n, err = r.readBlock(b.buf[r.head:], at)
				return err
			})
		})
		at += int64(b.n)
		if !r.full.Put(b) || b.err != nil {
			return
		}
	}
}

// readBlock fills b from offset at on, up to the end of the file.
func (r *Reader) readBlock(b []byte, at int64) (n int, err error) {
	want := int(min(int64(len(b)), r.size-at))
	for n < want {
		// Not ReadAt, which would continue after a short read at an unaligned offset.
		m, err := unix.Pread(int(r.f.Fd()), b[n:], at+int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return n, &os.PathError{Op: "read", Path: r.path, Err: err}
		case m == 0:
			return n, &os.PathError{Op: "read", Path: r.path, Err: io.ErrUnexpectedEOF}
		default:
			n += m
		}
	}
	return want, nil
}

// Size returns the length of the file.
func (r *Reader) Size() int64 { return r.size }

// Next returns keep followed by the next block of the file, or io.EOF after the last one.
// keep is the end of the slice that Next returned before. That slice becomes invalid.
func (r *Reader) Next(keep []byte) ([]byte, error) {
	if r.got == r.size {
		return nil, io.EOF
	}
	b, _ := r.full.Get()
	if b.err != nil {
		return nil, b.err
	}
	_, _ = r.hash.Write(b.buf[r.head : r.head+b.n]) // never fails
	from := r.head - len(keep)
	copy(b.buf[from:], keep)
	if r.last.buf != nil {
		r.free.Put(r.last)
	}
	r.last = b
	r.got += int64(b.n)
	return b.buf[from : r.head+b.n], nil
}

// Sum returns the sum of the file's bytes once Next has reached its end.
func (r *Reader) Sum() uint64 { return r.hash.Sum64() }

// Close ends reading, at any time.
func (r *Reader) Close() error {
	r.free.Close()
	r.full.Close()
	_ = r.stopped.Wait()
	return r.env.Do("close "+r.path, r.f.Close)
}
