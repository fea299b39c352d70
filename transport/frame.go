package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// headerBytes is a cache line.
const headerBytes = 64

// protocolVersion must change with the frames or the handshake. Both ends must have the
// same.
const protocolVersion = 6

type frameKind uint8

const (
	frameEager     frameKind = iota + 1 // a complete message
	frameOffer                          // a message not yet sent: id names it, arg is its length, the payload may be its address
	frameWant                           // answer to an offer: id is the offer's, arg names the receive
	frameDone                           // answer to an offer whose bytes are not to be sent, because they were read or are refused: id is the offer's
	frameData                           // a piece of a message asked for: id names the receive, arg is the offset
	frameCredit                         // arg bytes of eager messages have been received
	frameAbort                          // rank from has aborted: rank id of generation arg is lost, the payload is the cause
	frameHeartbeat                      // the sender is alive
	frameBulk                           // over MPI: a piece of a message asked for follows without a frame: id names the receive, arg is the offset, tag the length
	frameBye                            // over MPI: nothing follows
	frameKinds
)

// mayHave reports whether a message's frame may have a payload of this length.
func (k frameKind) mayHave(bytes uint32) bool {
	switch k {
	case frameEager, frameData:
		return bytes <= maxPayload
	case frameOffer:
		return bytes == 0 || bytes == addressBytes
	}
	return bytes == 0
}

// header begins every frame. It is encoded in headerBytes bytes, little-endian, and ends
// with its own checksum.
type header struct {
	kind       frameKind
	from, to   uint32 // ranks
	length     uint32 // of the payload that follows, in bytes
	generation uint64
	sequence   uint64 // of frames on a link and direction, from 0: detects replay and loss
	tag        Tag
	id, arg    uint64
	sum        uint32 // CRC-32C of the payload; 0 in shared memory or on a sealed connection
}

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	magic      = [3]byte{'e', 'c', 'r'}
)

func (h *header) encodeHeader(b *[headerBytes]byte) {
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

func (h *header) decodeHeader(b *[headerBytes]byte) error {
	le := binary.LittleEndian
	if got, want := crc32.Checksum(b[:60], castagnoli), le.Uint32(b[60:]); got != want {
		return protocolError("a frame's header has checksum %#x, want %#x", got, want)
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
		return protocolError("a frame of %d bytes; the limit is %d", h.length, maxPayload)
	}
	return nil
}

// encodeLoss encodes the frame that reports the end of a rank to its peers.
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

// protocolError is the cause of a PeerLost if the peer violated the protocol.
func protocolError(format string, args ...any) error {
	return fmt.Errorf("broken frame: "+format, args...)
}
