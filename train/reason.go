package train

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// reasonBytes is how much of an error's text travels to the other ranks.
const reasonBytes = 512

// reasonWords is an error's text, cut where it is too long, as words of the control
// communicator; zeros where there is none.
func reasonWords(err error) []uint64 {
	var text [reasonBytes]byte
	if err != nil {
		if n := copy(text[:], err.Error()); n < len(err.Error()) {
			copy(text[reasonBytes-3:], "...")
		}
	}
	words := make([]uint64, reasonBytes/8)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(text[8*i:])
	}
	return words
}

// reasonOf is the error of a rank that could not do its part of a checkpoint.
func reasonOf(rank int, words []uint64) error {
	var text [reasonBytes]byte
	for i, w := range words {
		binary.LittleEndian.PutUint64(text[8*i:], w)
	}
	// What was cut within a character has lost it.
	reason := strings.ToValidUTF8(string(bytes.TrimRight(text[:], "\x00")), "")
	return fmt.Errorf("checkpoint: rank %d: %s", rank, strings.TrimPrefix(reason, "checkpoint: "))
}
