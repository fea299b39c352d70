package shard

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/kernels"
)

// TestJournal does random updates, seals, commits and rollbacks on a shard, and the same on
// plain copies of all rows.
func TestJournal(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		checkJournal(t, r)
	}
}

func checkJournal(t *testing.T, r *rand.Rand) {
	const state = 1
	h := shards(t, 2, state)[1]
	h.OpenJournal(KeepRows, func() time.Duration { return 0 })
	views := []*Shard{h, h.On(h.s)}
	shuffled := make([]int32, h.Slots())
	for i, slot := range r.Perm(len(shuffled)) {
		shuffled[i] = int32(slot)
	}
	if err := h.drawUntouched(shuffled); err != nil { // so that copies have all rows
		t.Fatal(err)
	}
	rows := func() []byte { return allRows(t, h) }
	ends := [][]byte{rows()} // at the last commit, and at the end of each sealed epoch
	for range 60 {
		switch x := r.IntN(10); {
		case x < 5:
			update(t, r, views[r.IntN(2)])
		case x < 7 && len(ends) < 3:
			checkDelta(t, r, h, h.Journal().Seal(), ends[len(ends)-1])
			ends = append(ends, rows())
		case x < 8 && len(ends) > 1:
			h.Journal().Commit()
			ends = ends[1:]
		case x < 9:
			checkCommitted(t, r, h, ends[0])
		default:
			keep := r.IntN(len(ends))
			if err := h.Rollback(keep); err != nil {
				t.Fatal(err)
			}
			if ends = ends[:keep+1]; !bytes.Equal(rows(), ends[keep]) {
				t.Fatal("a rollback does not restore the rows at the end of an epoch")
			}
		}
		checkPlaces(t, h)
		if h.Journal().Sealed() != len(ends)-1 {
			t.Fatalf("%d epochs are sealed, not %d", h.Journal().Sealed(), len(ends)-1)
		}
	}
}

// update writes some rows, by StoreRows or Apply.
func update(t *testing.T, r *rand.Rand, h *Shard) {
	slots := randomSlots(r, int(h.Slots()))
	stride := h.rows.Stride
	if len(slots) == 0 {
		return
	}
	values := make([]float32, len(slots)*stride)
	for i := range values {
		values[i] = r.Float32()
	}
	var err error
	if r.IntN(2) == 0 {
		err = h.StoreRows(slots, kernels.Mat(kernels.HostBuffer(values), len(slots), stride))
	} else {
		start, pos := make([]int32, len(slots)+1), make([]int32, len(slots))
		for i := range slots {
			start[i+1], pos[i] = int32(i+1), int32(i)
		}
		err = h.Apply(kernels.WholeRow(kernels.Optimizer{Kind: kernels.RowwiseAdagrad, LR: 0.1}), slots, kernels.Mat(kernels.HostBuffer(values), len(slots), width),
			kernels.HostBuffer(start), kernels.HostBuffer(pos))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// randomSlots draws different slots, in random order.
func randomSlots(r *rand.Rand, limit int) []int32 {
	slots := []int32{}
	for _, x := range r.Perm(limit)[:r.IntN(r.IntN(limit)+1)] {
		slots = append(slots, int32(x))
	}
	return slots
}

// checkDelta checks that the deltas of an epoch that was just sealed lead from its beginning to
// the present rows.
func checkDelta(t *testing.T, r *rand.Rand, h *Shard, e *Epoch, before []byte) {
	n, stride := len(e.Slots), h.rows.Stride
	order, slots := make([]int32, n), make([]int32, n)
	for i, x := range r.Perm(n) {
		order[i], slots[i] = int32(x), e.Slots[x]
	}
	delta := make([]float32, n*stride)
	if err := h.Delta(kernels.Mat(kernels.HostBuffer(delta), n, stride), e, order, slots); err != nil {
		t.Fatal(err)
	}
	sorted, places := e.Sorted(nil, nil)
	if !slices.IsSorted(sorted) || len(sorted) != n {
		t.Fatalf("%d of %d slots, sorted: %v", len(sorted), n, sorted)
	}
	for i, place := range places {
		if e.Slots[place] != sorted[i] {
			t.Fatalf("slot %d is not at place %d", sorted[i], place)
		}
	}
	got, now := bytes.Clone(before), allRows(t, h)
	for i, slot := range slots {
		for k, d := range kernels.BytesOf(delta)[i*4*stride : (i+1)*4*stride] {
			got[int(slot)*4*stride+k] ^= d
		}
	}
	if !bytes.Equal(got, now) {
		t.Fatal("the deltas of an epoch do not lead from its beginning to its end")
	}
}

func checkCommitted(t *testing.T, r *rand.Rand, h *Shard, committed []byte) {
	slots, stride := randomSlots(r, int(h.Slots())), h.rows.Stride
	got := make([]float32, len(slots)*stride)
	if err := h.ReadCommitted(kernels.Mat(kernels.HostBuffer(got), len(slots), stride), slots); err != nil {
		t.Fatal(err)
	}
	for i, slot := range slots {
		if !bytes.Equal(kernels.BytesOf(got)[i*4*stride:(i+1)*4*stride], committed[int(slot)*4*stride:int(slot+1)*4*stride]) {
			t.Fatalf("row %d is not that of the last commit", slot)
		}
	}
}

// TestJournalOfHashes does the same updates on a shard whose journal keeps rows and on one whose
// journal keeps hashes. Their sealed epochs list the same rows, and find the same ones changed.
func TestJournalOfHashes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	shards := []*Shard{shards(t, 2, 1)[1], shards(t, 2, 1)[1]}
	for i, h := range shards {
		h.OpenJournal([]Keep{KeepRows, KeepHashes}[i], func() time.Duration { return 0 })
	}
	unchanged := 0
	for epoch := range uint64(30) {
		var before [2][]byte
		var slots, changed [2][]int32
		for i, h := range shards {
			r := rand.New(rand.NewPCG(seed, epoch))
			before[i] = allRows(t, h)
			update(t, r, h)
			update(t, r, h)
			rewrite(t, r, h)
			e := h.Journal().Seal()
			var places []int32
			slots[i], places = e.Sorted(nil, nil)
			var err error
			if changed[i], err = h.Changed(nil, e, places, slots[i]); err != nil {
				t.Fatal(err)
			}
			h.Journal().Commit()
		}
		if !slices.Equal(slots[0], slots[1]) || !slices.Equal(changed[0], changed[1]) {
			t.Fatalf("epoch %d: with rows %d, %d changed; with hashes %d, %d changed", epoch, slots[0], changed[0], slots[1], changed[1])
		}
		now, stride := allRows(t, shards[1]), shards[1].RowBytes()
		var want []int32
		for _, slot := range slots[0] {
			if at := int(slot) * stride; !bytes.Equal(before[1][at:at+stride], now[at:at+stride]) {
				want = append(want, slot)
			}
		}
		if !slices.Equal(changed[1], want) {
			t.Fatalf("epoch %d: %d changed, want %d", epoch, changed[1], want)
		}
		unchanged += len(slots[0]) - len(want)
	}
	if unchanged == 0 {
		t.Error("every row that was written has changed: rows with the same bytes were not tested")
	}
	for i, h := range shards {
		var rows, hashes int
		for _, e := range h.Journal().allEpochs() {
			rows += e.before.Bytes()
			hashes += cap(e.hashes) * digestBytes
		}
		if want := h.Journal().Bytes(); i == 0 && (hashes > 0 || int64(rows) != want) || i == 1 && (rows > 0 || int64(hashes) != want) || want == 0 {
			t.Errorf("journal %d holds %d bytes of rows and %d of hashes, and reports %d", i, rows, hashes, want)
		}
	}
}

// allRows is the bytes of all rows, drawn or not.
func allRows(t *testing.T, h *Shard) []byte {
	all := make([]byte, h.Slots()*int64(h.RowBytes()))
	init := make([]float32, width)
	for slot := range int32(h.Slots()) {
		row := all[int(slot)*h.RowBytes():][:h.RowBytes()]
		if !isSet(h.touched, slot) {
			h.init.Row(init, h.o.Map.Global(h.o.Owner, int64(slot)))
			copy(row, kernels.BytesOf(init))
		} else if err := h.ReadBytes(row, []int32{slot}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// rewrite writes the present bytes of some rows.
func rewrite(t *testing.T, r *rand.Rand, h *Shard) {
	slots := randomSlots(r, int(h.Slots()))
	rows := make([]float32, len(slots)*h.rows.Stride)
	if err := h.ReadRows(kernels.Mat(kernels.HostBuffer(rows), len(slots), h.rows.Stride), slots); err != nil {
		t.Fatal(err)
	}
	if err := h.StoreRows(slots, kernels.Mat(kernels.HostBuffer(rows), len(slots), h.rows.Stride)); err != nil {
		t.Fatal(err)
	}
}

// TestJournalOfHashesHasNoPreImages: calls that need pre-images panic.
func TestJournalOfHashesHasNoPreImages(t *testing.T) {
	h := shards(t, 1, 0)[0]
	h.OpenJournal(KeepHashes, func() time.Duration { return 0 })
	for name, f := range map[string]func() error{
		"Rollback":      func() error { return h.Rollback(0) },
		"Delta":         func() error { return h.Delta(kernels.Matrix{}, h.Journal().Seal(), nil, nil) },
		"ReadCommitted": func() error { return h.ReadCommitted(kernels.Matrix{}, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			_ = f()
		}()
	}
}

// TestDigestChange: the changes of epochs add up to the digest of the rows, whether the journal keeps
// rows or hashes, also for rows that return to their inits and rows that are set without a record.
func TestDigestChange(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for n := range 40 {
		h := shards(t, 2, 1)[1]
		h.OpenJournal(Keep(n%2), func() time.Duration { return 0 })
		if n%3 == 0 {
			slots := randomSlots(r, int(h.Slots()))
			slices.Sort(slots)
			rows := make([]byte, len(slots)*h.RowBytes())
			for i := range rows {
				rows[i] = byte(r.Uint32())
			}
			if err := h.StoreRaw(slots, rows); err != nil {
				t.Fatal(err)
			}
		}
		sum := digestOf(t, h)
		for range 6 {
			for range r.IntN(4) {
				update(t, r, h)
			}
			if r.IntN(2) == 0 {
				restoreInits(t, r, h)
			}
			e := h.Journal().Seal()
			slots, places := e.Sorted(nil, nil)
			var rows []byte
			if r.IntN(2) == 0 {
				rows = make([]byte, len(slots)*h.RowBytes())
			}
			change, err := h.DigestChange(e, places, slots, rows)
			if err != nil {
				t.Fatal(err)
			}
			sum.Add(change)
			want := make([]byte, len(rows))
			if rows != nil && (h.ReadBytes(want, slots) != nil || !bytes.Equal(rows, want)) {
				t.Fatalf("journal %v: the rows differ from those that ReadBytes reads", h.Journal().Keeps())
			}
			if want := digestOf(t, h); sum != want {
				t.Fatalf("journal %v: the changes add up to %v, the digest of the rows is %v", h.Journal().Keeps(), sum, want)
			}
			h.Journal().Commit()
		}
	}
}

func digestOf(t *testing.T, h *Shard) digest.Sum {
	t.Helper()
	sum, err := h.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// restoreInits sets some rows to their inits, as an update may by chance.
func restoreInits(t *testing.T, r *rand.Rand, h *Shard) {
	t.Helper()
	slots := randomSlots(r, int(h.Slots()))
	rows := make([]float32, len(slots)*h.rows.Stride)
	init := h.Init()
	for i, slot := range slots {
		init.Row(rows[i*h.rows.Stride:][:h.Width()], h.o.Map.Global(h.o.Owner, int64(slot)))
	}
	if err := h.StoreRows(slots, kernels.Mat(kernels.HostBuffer(rows), len(slots), h.rows.Stride)); err != nil {
		t.Fatal(err)
	}
}
