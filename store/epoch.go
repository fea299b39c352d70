package store

import (
	"encoding/binary"
	"errors"
	"math"
)

// epoch is a rank's part of an epoch, as it is written.
type epoch struct {
	step  int64
	mark  int64 // of the shard, at the seal
	held  bool
	wide  bool    // it has the rows of several epochs
	slots []int32 // ascending
	rows  []byte
	extra []byte
}

// empty drops the contents, and the memory too if it is that of several epochs.
func (e *epoch) empty() {
	if e.wide {
		*e = epoch{}
	}
	e.step, e.mark, e.held = 0, 0, false
	e.slots, e.rows, e.extra = e.slots[:0], e.rows[:0], e.extra[:0]
}

// mostSpare is how many epochs that are not used any more keep their memory for later ones. A log that keeps up needs no more.
const mostSpare = 4

// addSpare adds an epoch to those whose memory is used again.
func addSpare(spare []*epoch, e *epoch) []*epoch {
	if e.empty(); len(spare) == mostSpare {
		return spare
	}
	return append(spare, e)
}

// mergeOlder adds the rows of an older epoch that e does not have.
func (e *epoch) mergeOlder(old *epoch, rowBytes int) {
	slots := make([]int32, 0, len(e.slots)+len(old.slots))
	rows := make([]byte, 0, len(e.rows)+len(old.rows))
	i, k := 0, 0
	for i < len(e.slots) || k < len(old.slots) {
		if k < len(old.slots) && (i == len(e.slots) || old.slots[k] < e.slots[i]) {
			slots, rows = append(slots, old.slots[k]), append(rows, old.rows[k*rowBytes:(k+1)*rowBytes]...)
			k++
			continue
		}
		if k < len(old.slots) && old.slots[k] == e.slots[i] {
			k++
		}
		slots, rows = append(slots, e.slots[i]), append(rows, e.rows[i*rowBytes:(i+1)*rowBytes]...)
		i++
	}
	e.slots, e.rows, e.wide = slots, rows, true
}

// The extra part of an epoch on the first rank: the digest of the model as text, zeros if it is unknown; the number
// of losses; the length of the record; the record; and the dense part.
const (
	digestBytes = 32
	recordAt    = digestBytes + 16
)

// setExtra sets all but the dense part, which follows.
func (e *epoch) setExtra(record []byte, losses int64) {
	e.extra = append(e.extra[:0], make([]byte, digestBytes)...)
	e.extra = binary.LittleEndian.AppendUint64(e.extra, uint64(losses))
	e.extra = binary.LittleEndian.AppendUint64(e.extra, uint64(len(record)))
	e.extra = append(e.extra, record...)
}

// setDigest sets the digest of the model, if the epoch has an extra part.
func (e *epoch) setDigest(digest string) {
	if len(e.extra) > 0 {
		copy(e.extra[:digestBytes], digest)
	}
}

// readExtra is the reverse of setExtra and setDigest.
func readExtra(b []byte) (record, dense []byte, digest string, losses int64, err error) {
	if len(b) < recordAt || binary.LittleEndian.Uint64(b[digestBytes+8:]) > uint64(len(b)-recordAt) {
		return nil, nil, "", 0, errors.New("the record of the run is incomplete")
	}
	if b[0] != 0 {
		digest = string(b[:digestBytes])
	}
	end := recordAt + int(binary.LittleEndian.Uint64(b[digestBytes+8:]))
	return b[recordAt:end], b[end:], digest, int64(binary.LittleEndian.Uint64(b[digestBytes:])), nil
}

// addLosses adds rows with the losses that the log does not have yet. The first of them may have some that it has.
func (s *Store) addLosses(e *epoch, losses []float64) {
	if int64(len(losses)) == s.losses {
		return
	}
	e.slots, e.rows = appendLosses(e.slots, e.rows, losses, s.losses, s.slots(), int64(s.o.Shard.RowBytes()))
	s.losses = int64(len(losses))
}

// appendLosses appends rows with the losses behind the first ones, in slots from first on.
func appendLosses(slots []int32, rows []byte, losses []float64, from, first, rowBytes int64) ([]int32, []byte) {
	for slot := 8 * from / rowBytes; slot*rowBytes < 8*int64(len(losses)); slot++ {
		slots = append(slots, int32(first+slot))
		for at := slot * rowBytes; at < (slot+1)*rowBytes; at += 4 {
			word := uint32(0)
			if i := at / 8; i < int64(len(losses)) {
				word = uint32(math.Float64bits(losses[i]) >> (8 * (at % 8)))
			}
			rows = binary.LittleEndian.AppendUint32(rows, word)
		}
	}
	return slots, rows
}

// lossesOf are the losses in rows, one after the other.
func lossesOf(b []byte) []float64 {
	losses := make([]float64, len(b)/8)
	for i := range losses {
		losses[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return losses
}
