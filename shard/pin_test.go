package shard

import (
	"bytes"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ecrec/ecrec/kernels"
)

// pinned is the state of a shard, as a save reads it.
type pinned struct {
	touched []uint64
	rows    []byte
}

func stateOf(t *testing.T, h *Shard) pinned {
	t.Helper()
	checkPlaces(t, h)
	written := 0
	for i, word := range h.TouchedBits() {
		if written += bits.OnesCount64(word); word&^h.touched[i] != 0 {
			t.Fatal("a row was written and never touched")
		}
	}
	rows := make([]byte, written*h.RowBytes())
	if n, _, err := h.ReadTouched(rows, 0); err != nil || n != written {
		t.Fatalf("read %d of %d rows: %v", n, written, err)
	}
	return pinned{slices.Clone(h.TouchedBits()), rows}
}

// TestPin: rows that are read through a pin, in pieces of any size and while rows are read, written,
// sealed and committed, are those of the moment when they were pinned.
func TestPin(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	aside := 0
	for n := range 60 {
		h := shards(t, 2, 1)[1]
		if n%3 > 0 {
			h.OpenJournal([]Keep{KeepRows, KeepHashes}[n%3-1], func() time.Duration { return 0 })
		}
		views := []*Shard{h, h.On(h.s)}
		for range 4 { // saves, one after the other
			for range r.IntN(3) {
				update(t, r, views[r.IntN(2)])
			}
			aside += checkPin(t, r, views)
		}
	}
	if aside == 0 {
		t.Error("no row was ever put aside")
	}
}

// checkPin reads all rows through a pin and returns how many of them were put aside.
func checkPin(t *testing.T, r *rand.Rand, views []*Shard) int {
	h := views[0]
	want := stateOf(t, h)
	p := h.Pin()
	defer p.Close()
	var got []byte
	for at, ended := int64(0), false; !ended; {
		for range r.IntN(3) {
			change(t, r, views[r.IntN(2)])
		}
		piece := make([]byte, r.IntN(40)*h.RowBytes()+r.IntN(h.RowBytes()))
		n, next, err := p.ReadTouched(piece, at)
		if err != nil || n > len(piece)/h.RowBytes() {
			t.Fatalf("%d rows: %v", n, err)
		}
		ended, at = n == 0 && len(piece) >= h.RowBytes(), next
		got = append(got, piece[:n*h.RowBytes()]...)
	}
	if !slices.Equal(p.TouchedBits(), want.touched) {
		t.Fatal("other rows are touched than when they were pinned")
	}
	if !bytes.Equal(got, want.rows) {
		t.Fatalf("%d bytes of rows, want %d; or they differ", len(got), len(want.rows))
	}
	rows, held := p.rows, 0
	for slot := range int32(h.Slots()) {
		if p.placeOf(slot) >= 0 && !isSet(want.touched, slot) {
			t.Fatalf("row %d is aside, and was untouched", slot)
		}
	}
	if rows > 0 && len(p.aside) != (rows-1)/p.asideRows()+1 {
		t.Fatalf("%d buffers of %d rows for %d", len(p.aside), p.asideRows(), rows)
	}
	for _, b := range p.aside {
		held += b.Bytes()
	}
	if most := int64(h.Slots()) * int64(h.RowBytes()); p.Bytes() != int64(rows*h.RowBytes()) || p.Bytes() > int64(held) || p.Bytes() > most {
		t.Fatalf("%d rows are aside in %d bytes, and it reports %d", rows, held, p.Bytes())
	}
	change(t, r, h) // rows that have been read are not put aside
	if p.rows != rows {
		t.Fatalf("%d rows were put aside after all were read", p.rows-rows)
	}
	return rows
}

// change updates or reads rows, or seals and commits an epoch.
func change(t *testing.T, r *rand.Rand, h *Shard) {
	t.Helper()
	j := h.Journal()
	switch x := r.IntN(6); {
	case x == 0:
		slots := randomSlots(r, int(h.Slots()))
		_, m := matrix(len(slots))
		if err := h.Read(m, slots); err != nil {
			t.Fatal(err)
		}
	case x == 1 && j != nil:
		j.Seal()
		j.Commit()
	default:
		update(t, r, h)
	}
}

// TestPinnedRowsAreNotSetWithoutARecord: calls that would change pinned rows and keep nothing panic, and so
// does a second pin.
func TestPinnedRowsAreNotSetWithoutARecord(t *testing.T) {
	h := shards(t, 1, 1)[0]
	h.OpenJournal(KeepRows, func() time.Duration { return 0 })
	update(t, rand.New(rand.NewPCG(3, 4)), h)
	p := h.Pin()
	row := make([]float32, h.rows.Stride)
	calls := map[string]func(){
		"Pin":       func() { h.Pin() },
		"Reset":     func() { h.Reset() },
		"Rollback":  func() { _ = h.Rollback(0) },
		"Store":     func() { _ = h.Store(0, kernels.Mat(kernels.HostBuffer(row), 1, width)) },
		"StoreRaw":  func() { _ = h.StoreRaw([]int32{0}, kernels.BytesOf(row)) },
		"StoreLost": func() { _ = h.StoreLost([]int32{0}, kernels.Mat(kernels.HostBuffer(row), 1, len(row))) },
	}
	for name, call := range calls {
		if message := panicOf(call); message == "" {
			t.Errorf("%s did not panic", name)
		}
	}
	if _, _, err := p.ReadTouched(make([]byte, 8*h.RowBytes()), 0); err != nil {
		t.Fatal(err)
	}
	if message := panicOf(func() { _, _, _ = p.ReadTouched(nil, 0) }); message == "" {
		t.Error("rows were read again that are no longer pinned")
	}
	p.Close()
	for name, call := range calls {
		if message := panicOf(call); message != "" && name != "Pin" {
			t.Errorf("%s without a pin: %s", name, message)
		}
		h.hold.pin = nil
	}
}

func panicOf(call func()) (message string) {
	defer func() {
		if x := recover(); x != nil {
			message = fmt.Sprint(x)
		}
	}()
	call()
	return ""
}
