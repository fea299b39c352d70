package stream

import (
	"reflect"
	"slices"
	"testing"

	"github.com/ecrec/ecrec/lineage"
)

// epochOf returns the frames of an epoch of two rows. The bytes of the rows are its last step. An epoch from step 0 on is absolute.
func epochOf(run byte, session uint64, from, to int64) [][]byte {
	f := listed(header{lineage: lineage.ID{run}, ranks: 1, session: session, from: from, to: to, absolute: from == 0})
	f.addRows([]int32{1}, []byte{byte(to), 0, 0, 0})
	f.addRows([]int32{5}, []byte{byte(to), 0, 0, 0})
	f.addEnd(nil)
	return f.all()
}

// takeFrames has a chain take the frames of a partition from its position on.
func takeFrames(t *testing.T, c *Chain, list [][]byte) (epochs []*Epoch) {
	t.Helper()
	for offset := c.Position().Next; offset < int64(len(list)); offset++ {
		e, err := c.Take(Record{Offset: offset, Bytes: list[offset]})
		must(t, err)
		if e != nil {
			epochs = append(epochs, e)
		}
	}
	return epochs
}

// TestRestartBetweenWriters: a reader that restarts where the frames of several writers are mixed, or a run that was left writes on, gets
// the same epochs as one that does not restart.
func TestRestartBetweenWriters(t *testing.T) {
	old, next, dead, fork := epochOf(1, 5, 15, 20), epochOf(1, 6, 0, 30), epochOf(1, 8, 0, 33), epochOf(2, 7, 0, 25)
	list := slices.Concat(epochOf(1, 5, 0, 15),
		next[:1], dead[:1], next[1:2], old[:1], next[:2], old[1:], next[2:], // next begins twice, and dead never ends
		epochOf(1, 6, 30, 35), fork[:1], epochOf(1, 6, 35, 40), fork[1:],
		epochOf(1, 6, 40, 45), epochOf(1, 5, 0, 50), epochOf(2, 7, 25, 30))
	all := takeFrames(t, NewChain(0, Start(0)), list)
	var steps []int64
	for i, e := range all {
		steps = append(steps, e.To)
		c := NewChain(0, Position{e.Lineage, e.To, e.Next})
		c.leave([]lineage.Fork{{Lineage: lineage.ID{1}}})
		if rest := takeFrames(t, c, list); len(rest) != len(all)-i-1 || len(rest) > 0 && !reflect.DeepEqual(rest, all[i+1:]) {
			t.Errorf("a reader that restarts after step %d has %d epochs, want %d", e.To, len(rest), len(all)-i-1)
		}
	}
	if !slices.Equal(steps, []int64{15, 20, 30, 35, 40, 25, 30}) {
		t.Errorf("steps %v", steps)
	}
}

// TestDeadWriter: an epoch whose writer is gone does not keep the position for ever.
func TestDeadWriter(t *testing.T) {
	list := slices.Concat(epochOf(1, 5, 0, 1), epochOf(2, 6, 0, 9)[:1])
	first := int64(len(list) - 1)
	for step := range int64(2 * mostIdle) {
		list = append(list, epochOf(1, 5, step+1, step+2)...)
	}
	for i, e := range takeFrames(t, NewChain(0, Start(0)), list) {
		if i > 0 && (e.Next == first) != (i <= mostIdle) {
			t.Fatalf("after %d epochs the position is at offset %d", i, e.Next)
		}
	}
}
