package transport

import (
	"testing"

	"github.com/ecrec/ecrec/internal/mpi"
)

// The memory of a message whose transfer was cancelled does not become a packet's, whatever its length.
func TestMPICancelledMemoryIsNotReused(t *testing.T) {
	e := &mpiEngine{}
	for _, x := range []struct {
		bulk  bool
		spare int
	}{{true, 0}, {false, 1}} {
		slot := e.takeSlot(mpiTransfer{kind: packetOut, link: &link{}, p: make([]byte, packetBytes), frame: frame{bulk: x.bulk}})
		if e.finishTransfer(mpi.Done{Slot: slot}); len(e.spare) != x.spare {
			t.Errorf("a message (%v): %d spare packets, want %d", x.bulk, len(e.spare), x.spare)
		}
	}
}
