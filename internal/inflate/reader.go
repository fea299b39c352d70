package inflate

import (
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"io"
)

const (
	inputBytes  = 256 << 10 // read at a time
	padBytes    = 32        // of zeros behind the end of the input
	marginBytes = 16        // of input that a step of the fast loop may read
	windowBytes = 32 << 10
	// roomBytes is how much text a step of the fast loop may write: literals of 63 bits, a match of 258 bytes, and up to
	// 15 bytes behind its end.
	roomBytes = 512
)

// state is the kind of the next input.
type state uint8

const (
	atMember  state = iota // the header of a member, or the end
	atBlock                // the header of a block
	inBlock                // codes of a block
	inStored               // the bytes of a stored block
	atTrailer              // the trailer of a member
)

// Reader is an io.Reader of the text of a gzip file.
type Reader struct {
	src io.Reader
	err error // of all further calls

	in       []byte // in[at:end] is not decoded yet; padBytes of room follow
	at, end  int
	ended    bool // src has no more
	fetched  int64
	bits     uint64 // in[:at] ends with the bits that are still here, the first one lowest
	bitCount uint

	state   state
	final   bool // the block is the last of its stream
	stored  int  // bytes left of a stored block
	codes   *codes
	dynamic codes
	first   bool // no member has been read

	crc  uint32
	size int64  // of the member's text
	from int64  // place of the stream's first byte in the input
	tail []byte // the last text that was made, up to windowBytes

	small [2 * roomBytes]byte // text for a caller with less room
	rest  []byte              // of small
}

// NewReader returns a reader of a file.
func NewReader(src io.Reader) *Reader {
	return &Reader{src: src, in: make([]byte, inputBytes+padBytes), tail: make([]byte, 0, windowBytes), first: true}
}

// InputBytes is how many bytes of the file were decoded.
func (z *Reader) InputBytes() int64 {
	return min(z.fetched, z.fetched-int64(z.end-z.at)-int64(z.bitCount/8))
}

// Read decompresses into b. Near the end of b it stops early, which costs less than a full b. An error of the file
// is a flate.CorruptInputError, gzip.ErrHeader, gzip.ErrChecksum or io.ErrUnexpectedEOF.
func (z *Reader) Read(b []byte) (n int, err error) {
	if len(z.rest) == 0 && len(b) < len(z.small) && len(b) > 0 && z.err == nil {
		n, z.err = z.decode(z.small[:])
		z.rest = z.small[:n]
	}
	if len(z.rest) > 0 || len(b) == 0 {
		n = copy(b, z.rest)
		z.rest = z.rest[n:]
		return n, nil
	}
	if z.err == nil {
		n, z.err = z.decode(b)
	}
	return n, z.err
}

// decode decompresses into b until there is less room than roomBytes, or the file ends.
func (z *Reader) decode(b []byte) (n int, err error) {
	summed, begins := 0, -int(min(z.size, windowBytes))
	for err == nil && len(b)-n >= roomBytes {
		switch z.state {
		case atMember:
			if err = z.readHeader(); err == nil {
				z.crc, z.size, summed, begins = 0, 0, n, n
			}
		case atBlock:
			err = z.beginBlock()
		case inBlock:
			n, err = z.decodeBlock(b, n, begins)
		case inStored:
			n, err = z.copyStored(b, n)
		case atTrailer:
			z.sumText(b[summed:n])
			summed = n
			err = z.checkTrailer()
		}
	}
	if err != nil && err != io.EOF {
		return summed, z.explainError(err) // the rest of the text is not checked, and may be made of zeros behind the input
	}
	z.sumText(b[summed:n])
	z.keepTail(b[:n])
	return n, err
}

// sumText adds text to the sums of the member.
func (z *Reader) sumText(text []byte) {
	z.crc = crc32.Update(z.crc, crc32.IEEETable, text)
	z.size += int64(len(text))
}

// keepTail keeps the end of the text for the matches of the next call.
func (z *Reader) keepTail(text []byte) {
	if n := len(text) + len(z.tail) - windowBytes; n > 0 {
		z.tail = z.tail[:copy(z.tail, z.tail[min(n, len(z.tail)):])]
	}
	z.tail = append(z.tail, text[max(len(text)-windowBytes, 0):]...)
}

// fetch makes at least n bytes of input available, unless it ends before.
func (z *Reader) fetch(n int) error {
	if z.ended || z.end-z.at >= n {
		return nil
	}
	held := int(z.bitCount / 8) // bytes that dropBits may return
	z.end = copy(z.in, z.in[z.at-held:z.end])
	z.at = held
	for z.end < held+n && !z.ended {
		k, err := z.src.Read(z.in[z.end : len(z.in)-padBytes])
		z.end += k
		z.fetched += int64(k)
		if err == io.EOF {
			z.ended = true
			clear(z.in[z.end : z.end+padBytes])
		} else if err != nil {
			return err
		}
	}
	return nil
}

// corrupt is the error of bits that have no meaning.
func (z *Reader) corrupt() error { return flate.CorruptInputError(z.InputBytes() - z.from) }

// explainError returns the error of the end of the input if that is why bits have no meaning: a complete file has a trailer behind
// the last bits of a stream.
func (z *Reader) explainError(err error) error {
	_, ok := err.(flate.CorruptInputError)
	if ok && z.ended && z.end-z.at < 8-int(z.bitCount/8) {
		err = io.ErrUnexpectedEOF
	}
	if err == io.ErrUnexpectedEOF {
		z.at, z.bitCount = z.end, 0
	}
	return err
}

// dropBits returns the bits to the input, up to the next byte.
func (z *Reader) dropBits() error {
	z.at -= int(z.bitCount / 8)
	z.bits, z.bitCount = 0, 0
	if z.at > z.end {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// takeByte returns the next byte. There are no bits.
func (z *Reader) takeByte() (byte, error) {
	if err := z.fetch(1); err != nil {
		return 0, err
	}
	if z.at == z.end {
		return 0, io.ErrUnexpectedEOF
	}
	z.at++
	return z.in[z.at-1], nil
}

// checkTrailer compares the sums of a member's text.
func (z *Reader) checkTrailer() error {
	if err := z.fetch(8); err != nil {
		return err
	}
	if z.end-z.at < 8 {
		z.at = z.end
		return io.ErrUnexpectedEOF
	}
	le := binary.LittleEndian
	crc, size := le.Uint32(z.in[z.at:]), le.Uint32(z.in[z.at+4:])
	z.at += 8
	if crc != z.crc || size != uint32(z.size) {
		return gzip.ErrChecksum
	}
	z.state = atMember
	return nil
}
