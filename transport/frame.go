package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// headerBytes is a cache line.
const headerBytes = 64

// protocolVersion changes with the frames or the handshake; both ends must agree.
const protocolVersion = 4

type frameKind uint8

const (
	frameEager     frameKind = iota + 1 // a whole message
	frameOffer                          // a message that waits to be wanted: id names it, arg is its length, the payload may say where it can be read
	frameWant                           // answer to an offer: id is the offer's, arg names the receive
	frameDone                           // answer to an offer of which no bytes are to come, as they were read or nobody takes them: id is the offer's
	frameData                           // a piece of a wanted message: id names the receive, arg is the offset
	frameCredit                         // arg bytes of eager messages have been received
	frameAbort                          // rank from is over: rank id of generation arg is lost, the payload says why
	frameHeartbeat                      // the sender lives
	frameBulk                           // over MPI: a piece of a wanted message follows by itself: id names the receive, arg is the offset, tag the length
	frameBye                            // over MPI: nothing follows
	frameKinds
)

// mayHave reports whether the payload of a message's frame may be so long.
func (k frameKind) mayHave(bytes uint32) bool {
	switch k {
	case frameEager, frameData:
		return bytes <= maxPayload
	case frameOffer:
		return bytes == 0 || bytes == addressBytes
	}
	return bytes == 0
}

// header opens every frame. On the wire it is headerBytes long, little-endian,
// and ends with its own checksum.
type header struct {
	kind       frameKind
	from, to   uint32 // ranks
	length     uint32 // of the payload that follows, in bytes
	generation uint64
	sequence   uint64 // of frames on a link and direction, from 0: shows replay and loss
	tag        Tag
	id, arg    uint64
	sum        uint32 // CRC-32C of the payload; 0 where bytes go through memory
}

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	magic      = [3]byte{'e', 'c', 'r'}
)

func (h *header) encode(b *[headerBytes]byte) {
	le := binary.LittleEndian
	copy(b[0:3], magic[:])
	b[3] = byte(h.kind)
	le.PutUint32(b[4:], h.from)
	le.PutUint32(b[8:], h.to)
	le.PutUint32(b[12:], h.length)
	le.PutUint64(b[16:], h.generation)
	le.PutUint64(b[24:], h.sequence)
	le.PutUint64(b[32:], uint64(h.tag))
	le.PutUint64(b[40:], h.id)
	le.PutUint64(b[48:], h.arg)
	le.PutUint32(b[56:], h.sum)
	le.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
}

func (h *header) decode(b *[headerBytes]byte) error {
	le := binary.LittleEndian
	if got, want := crc32.Checksum(b[:60], castagnoli), le.Uint32(b[60:]); got != want {
		return protocolError("a frame's header has checksum %#x, not %#x", got, want)
	}
	if [3]byte(b[0:3]) != magic || b[3] == 0 || b[3] >= byte(frameKinds) {
		return protocolError("a frame begins with %x", b[:4])
	}
	*h = header{
		kind:       frameKind(b[3]),
		from:       le.Uint32(b[4:]),
		to:         le.Uint32(b[8:]),
		length:     le.Uint32(b[12:]),
		generation: le.Uint64(b[16:]),
		sequence:   le.Uint64(b[24:]),
		tag:        Tag(le.Uint64(b[32:])),
		id:         le.Uint64(b[40:]),
		arg:        le.Uint64(b[48:]),
		sum:        le.Uint32(b[56:]),
	}
	if h.length > maxPayload {
		return protocolError("a frame of %d bytes, over %d", h.length, maxPayload)
	}
	return nil
}

// encodeLoss makes the frame by which rank's peers learn what they see of its end.
func encodeLoss(rank int, seen error) (header, []byte) {
	lost := &PeerLost{Rank: rank, Cause: seen}
	errors.As(seen, &lost)
	text := []byte(lost.Cause.Error())
	return header{kind: frameAbort, from: uint32(rank), to: uint32(rank), id: uint64(lost.Rank), arg: lost.Generation},
		text[:min(len(text), 4096)]
}

func decodeLoss(h *header, text []byte) error {
	lost := &PeerLost{Rank: int(h.id), Generation: h.arg, Cause: ErrClosed}
	if string(text) != ErrClosed.Error() {
		lost.Cause = errors.New(string(text))
	}
	return lost
}

// protocolError is the cause of a PeerLost whose connection carried what no peer
// sends.
func protocolError(format string, args ...any) error {
	return fmt.Errorf("broken frame: "+format, args...)
}
