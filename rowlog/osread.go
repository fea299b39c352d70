package rowlog

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/internal/directio"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/uring"
)

const (
	// readers is the number of goroutines that read by preads. More are hardly faster, even on disks that are.
	readers = 8
	// preadBytes is the greatest length of a pread.
	preadBytes = 256 << 10
)

// ReadAll reads by the ring of the folder, one call at a time. If the system refuses the ring, now or at an earlier call, it reads all parts
// by preads.
func (f *osFile) ReadAll(parts []Part) error {
	d := f.dir
	ring, _ := d.rings.Get()
	if ring == nil {
		d.rings.Put(nil)
		return f.named(f.readByPreads(parts))
	}
	list := make([]uring.Part, len(parts))
	for i, p := range parts {
		list[i] = uring.Part(p)
	}
	err := f.do("read", func() error {
		return f.transfer(func() error { return ring.ReadAll(int(f.f.Fd()), list) })
	})
	if !errors.Is(err, uring.ErrRefused) {
		d.rings.Put(ring)
		return f.named(err)
	}
	why := err.Error()
	d.refusal.Store(&why)
	d.rings.Put(nil)
	return f.named(f.readByPreads(parts))
}

// named adds the file to the error of a part.
func (f *osFile) named(err error) error {
	if part := (*uring.PartError)(nil); errors.As(err, &part) {
		return &os.PathError{Op: "read", Path: f.f.Name(), Err: err}
	}
	return err
}

// piece is a piece of a part that one pread reads.
type piece struct {
	index int // of the part
	at    int64
	to    []byte
}

// splitParts splits parts into pieces. Each fits a block that begins at a multiple of Align.
func splitParts(parts []Part) []piece {
	pieces := make([]piece, 0, len(parts))
	for i, p := range parts {
		for at, to := p.At, p.Bytes; len(to) > 0; {
			n := min(len(to), preadBytes-int(at&(Align-1)))
			pieces = append(pieces, piece{i, at, to[:n]})
			at, to = at+int64(n), to[n:]
		}
	}
	return pieces
}

// readByPreads reads parts on several goroutines. Each takes the next piece when it has read one. After an error they take no more.
func (f *osFile) readByPreads(parts []Part) error {
	pieces, next := splitParts(parts), atomic.Int64{}
	ends := make([]*env.Event, min(readers, len(pieces)))
	for i := range ends {
		end := env.NewEvent(f.dir.env, "reads of "+f.f.Name())
		read := func() { end.Set(f.do("read", func() error { return f.readPieces(pieces, &next) })) }
		if ends[i] = end; i < len(ends)-1 {
			f.dir.env.Go("read "+f.f.Name(), read)
		} else {
			read()
		}
	}
	var first *uring.PartError
	for _, end := range ends {
		err := end.Wait()
		if part := (*uring.PartError)(nil); errors.As(err, &part) && (first == nil || part.Index < first.Index) {
			first = part
		} else if err != nil && part == nil {
			return err
		}
	}
	if first != nil {
		first.At = parts[first.Index].At
		return first
	}
	return nil
}

// blocks are unused ones of preadBytes.
var blocks = sync.Pool{New: func() any {
	b := directio.Aligned(preadBytes)
	return &b
}}

// readPieces reads the pieces from the next one on, by way of an aligned block.
func (f *osFile) readPieces(pieces []piece, next *atomic.Int64) error {
	block := blocks.Get().(*[]byte)
	defer blocks.Put(block)
	for {
		i := int(next.Add(1)) - 1
		if i >= len(pieces) {
			return nil
		}
		p := &pieces[i]
		if err := f.transfer(func() error { return f.readPiece(p, *block) }); err != nil {
			next.Store(int64(len(pieces)))
			return &uring.PartError{Index: p.index, Err: err}
		}
	}
}

func (f *osFile) readPiece(p *piece, block []byte) error {
	if p.at < 0 {
		return os.ErrInvalid
	}
	skip := int(p.at % Align)
	want := skip + len(p.to)
	if err := f.readBlock(block[:roundUp(int64(want))], want, p.at-int64(skip)); err != nil {
		return err
	}
	copy(p.to, block[skip:want])
	return nil
}

// readBlock reads at least the first want bytes of a block from an offset on.
func (f *osFile) readBlock(block []byte, want int, at int64) error {
	for got := 0; got < want; {
		n, err := unix.Pread(int(f.f.Fd()), block[got:], at+int64(got))
		switch {
		case errors.Is(err, unix.EINTR):
		case err == nil && n == 0, errors.Is(err, unix.EINVAL) && got%Align != 0: // with O_DIRECT, at the end of the file
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		default:
			got += n
		}
	}
	return nil
}
