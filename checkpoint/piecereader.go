package checkpoint

import (
	"fmt"
	"io"
	"os"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/internal/env"
)

// pieceBytes is how much of an increment's file a pieceReader has in memory.
const pieceBytes = 64 << 10

// pieceReader reads a file through the page cache, with little memory: the files of all increments and ranks are open at
// once.
type pieceReader struct {
	env  env.Env
	f    *os.File
	size int64
	got  int64 // bytes returned
	buf  []byte
	hash *xxh3.Hasher
}

// openPieces opens a file. Next can keep up to slack bytes.
func openPieces(e env.Env, path string, slack int) (*pieceReader, error) {
	r := &pieceReader{env: e, buf: make([]byte, slack+pieceBytes), hash: xxh3.New()}
	err := e.Do("open "+path, func() (err error) {
		if r.f, err = os.Open(path); err != nil {
			return err
		}
		info, err := r.f.Stat()
		if err != nil {
			r.f.Close()
			return err
		}
		r.size = info.Size()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return r, nil
}

// Next implements blocks.
func (r *pieceReader) Next(keep []byte) ([]byte, error) {
	if r.got == r.size {
		return nil, io.EOF
	}
	kept := copy(r.buf, keep)
	piece := r.buf[kept : kept+int(min(pieceBytes, r.size-r.got))]
	if err := r.env.Do("read "+r.f.Name(), func() error {
		_, err := io.ReadFull(r.f, piece)
		return err
	}); err != nil {
		return nil, err
	}
	_, _ = r.hash.Write(piece) // never fails
	r.got += int64(len(piece))
	return r.buf[:kept+len(piece)], nil
}

// Size implements blocks.
func (r *pieceReader) Size() int64 { return r.size }

// Sum implements blocks.
func (r *pieceReader) Sum() uint64 { return r.hash.Sum64() }

// Close implements blocks.
func (r *pieceReader) Close() error { return r.f.Close() }
