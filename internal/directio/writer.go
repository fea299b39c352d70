package directio

import (
	"errors"
	"fmt"
	"os"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/internal/env"
)

// Writer writes a file of known size from beginning to end.
type Writer struct {
	env   env.Env
	path  string
	f     *os.File
	size  int64
	slack int

	buf    []byte // being filled
	filled int
	at     int64 // offset of buf in the file
	hash   *xxh3.Hasher
	err    error
	closed bool

	full, free *env.Queue[block]
	stopped    *env.Event
}

// block is a buffer that travels between the Writer and its goroutine. On the way to the
// goroutine it holds the bytes to write and their offset; on the way back, the error of
// the write.
type block struct {
	buf []byte
	n   int
	at  int64
	err error
}

// Create starts the file at path, which must not exist. Room always returns at least
// slack bytes.
func Create(e env.Env, path string, size int64, slack int) (*Writer, error) {
	w := &Writer{env: e, path: path, size: size, slack: slack, hash: xxh3.New()}
	if err := e.Do("create "+path, func() (err error) {
		if w.f, err = OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err != nil || size == 0 {
			return err
		}
		if err = reserve(w.f, size); err != nil {
			w.f.Close()
			os.Remove(path)
			err = fmt.Errorf("%s: cannot reserve %d bytes: %w", path, size, err)
		}
		return err
	}); err != nil {
		return nil, err
	}
	w.full = env.NewQueue[block](e, "to write "+path, Blocks)
	w.free = env.NewQueue[block](e, "written "+path, Blocks)
	w.stopped = env.NewEvent(e, "writer "+path)
	for i := range Blocks {
		b := Aligned(roundUp(BlockBytes + slack + 1))
		if i == 0 {
			w.buf = b
			continue
		}
		w.free.Put(block{buf: b})
	}
	e.Go("writer "+path, w.writeBlocks)
	return w, nil
}

// writeBlocks writes blocks until the queue is closed.
func (w *Writer) writeBlocks() {
	for {
		b, ok := w.full.Get()
		if !ok {
			w.stopped.Set(nil)
			return
		}
		b.err = w.env.Do("write "+w.path, func() error {
			return Do(w.f, func() error {
				_, err := w.f.WriteAt(b.buf[:b.n], b.at)
				return err
			})
		})
		w.free.Put(b)
	}
}

// HasBuffer reports whether Advance will not wait for a buffer, for any part of Room.
func (w *Writer) HasBuffer() bool { return w.free.Len() > 0 }

// Room returns the buffer for the next bytes, at least slack long. Advance appends them.
func (w *Writer) Room() []byte { return w.buf[w.filled:] }

// Advance appends the first n bytes of Room to the file.
func (w *Writer) Advance(n int) error {
	w.filled += n
	if w.at+int64(w.filled) > w.size {
		return fmt.Errorf("%s: more than its %d bytes were written", w.path, w.size)
	}
	for w.filled >= BlockBytes && w.err == nil {
		next := w.takeBuffer()
		rest := copy(next, w.buf[BlockBytes:w.filled])
		w.submitBlock(BlockBytes, BlockBytes)
		w.buf, w.filled = next, rest
	}
	return w.err
}

// takeBuffer waits for a buffer that has been written.
func (w *Writer) takeBuffer() []byte {
	b, _ := w.free.Get()
	if w.err == nil {
		w.err = b.err
	}
	return b.buf
}

// submitBlock hashes the first n bytes of the buffer and sends the first length of
// them, which may be more, to the disk.
func (w *Writer) submitBlock(n, length int) {
	_, _ = w.hash.Write(w.buf[:n]) // never fails
	w.full.Put(block{buf: w.buf, n: length, at: w.at})
	w.at += int64(n)
}

// Write appends p.
func (w *Writer) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n := copy(w.Room(), p[done:])
		if err := w.Advance(n); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// Close writes the rest to the disk and returns the sum of the file's bytes. After an
// error the file is removed.
func (w *Writer) Close() (sum uint64, err error) {
	if w.err == nil && w.at+int64(w.filled) != w.size {
		w.err = fmt.Errorf("%s: only %d of its %d bytes were written", w.path, w.at+int64(w.filled), w.size)
	}
	returning := Blocks - 1
	if w.err == nil && w.filled > 0 {
		n := roundUp(w.filled)
		clear(w.buf[w.filled:n])
		w.submitBlock(w.filled, n)
		returning++
	}
	for range returning {
		w.takeBuffer()
	}
	w.full.Close()
	_ = w.stopped.Wait()
	w.closed = true
	err = w.env.Do("close "+w.path, func() error {
		err := w.err
		if err == nil {
			err = w.f.Truncate(w.size) // the last block was padded
		}
		if err == nil {
			err = w.f.Sync()
		}
		if cerr := w.f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			os.Remove(w.path)
		}
		return err
	})
	return w.hash.Sum64(), err
}

// Abort removes the file. After Close it does nothing, so that it can be deferred.
func (w *Writer) Abort() {
	if w.closed {
		return
	}
	if w.err == nil {
		w.err = errAborted
	}
	_, _ = w.Close()
}

var errAborted = errors.New("aborted")
