package train

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// failedSave is the error of a checkpoint that could not be written or read. All ranks get
// it at the same point, and the run may continue.
type failedSave struct{ cause error }

func (e *failedSave) Error() string { return e.cause.Error() }
func (e *failedSave) Unwrap() error { return e.cause }

// agree exchanges whether a rank has failed, and a list of numbers. If a rank has failed,
// all ranks get a failedSave: with their own cause, or with that of the first rank that
// failed.
func (c *control) agree(mine error, numbers []uint64) ([][]uint64, error) {
	ok := uint64(1)
	if mine != nil {
		ok = 0
	}
	all, err := c.gather(append([]uint64{ok}, numbers...))
	if err != nil {
		return nil, err
	}
	failed := -1
	for rank := len(all) - 1; rank >= 0; rank-- {
		if all[rank][0] == 0 {
			failed = rank
		}
		all[rank] = all[rank][1:]
	}
	if failed < 0 {
		return all, nil
	}
	causes, err := c.gather(packCause(mine))
	if err != nil {
		return nil, err
	}
	if mine == nil {
		mine = unpackCause(failed, causes[failed])
	}
	return nil, &failedSave{mine}
}

// causeBytes is how much of an error's text is sent to the other ranks.
const causeBytes = 512

// packCause packs an error's text into 64-bit numbers, zeros if there is no error. A text
// that is too long is cut.
func packCause(err error) []uint64 {
	var text [causeBytes]byte
	if err != nil {
		if n := copy(text[:], err.Error()); n < len(err.Error()) {
			copy(text[causeBytes-3:], "...")
		}
	}
	packed := make([]uint64, causeBytes/8)
	for i := range packed {
		packed[i] = binary.LittleEndian.Uint64(text[8*i:])
	}
	return packed
}

// unpackCause returns the error that a rank packed.
func unpackCause(rank int, packed []uint64) error {
	var text [causeBytes]byte
	for i, n := range packed {
		binary.LittleEndian.PutUint64(text[8*i:], n)
	}
	// A text that was cut within a character loses the character.
	cause := strings.ToValidUTF8(string(bytes.TrimRight(text[:], "\x00")), "")
	return fmt.Errorf("checkpoint: rank %d: %s", rank, strings.TrimPrefix(cause, "checkpoint: "))
}
