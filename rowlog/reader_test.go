package rowlog

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// TestReaderBesideWriter reads rows while epochs are appended, synced and cleaned. Each row that is read is the newest of the time
// before the read, or a later one, and whole.
func TestReaderBesideWriter(t *testing.T) {
	const slots, rowBytes, epochs = 500, 24, 300
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	dir, err := OpenDir(env.Real(), t.TempDir(), Access{})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	l, err := Open(Options{Dir: dir, RowBytes: rowBytes, Slots: slots, Owners: 1, FileBytes: 64 << 10, Lock: &sync.Mutex{}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.CutTo(0); err != nil {
		t.Fatal(err)
	}
	var newest [slots]atomic.Int64 // the step of the newest version, 0 if there is none
	var ended atomic.Bool
	reads, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		draw, reader := rand.New(rand.NewPCG(1, 2)), l.NewReader()
		for !ended.Load() {
			list := make([]int32, 1+draw.IntN(60))
			before := make([]int64, len(list))
			for i := range list {
				list[i] = int32(draw.IntN(slots))
				before[i] = newest[list[i]].Load()
			}
			rows := make([]byte, len(list)*rowBytes)
			missing, err := reader.Read(list, rows, nil)
			if err != nil {
				t.Error(err)
				return
			}
			for i, slot := range list {
				if slices.Contains(missing, int32(i)) {
					if before[i] != 0 {
						t.Errorf("row %d of step %d is missing", slot, before[i])
					}
					continue
				}
				row := rows[i*rowBytes : (i+1)*rowBytes]
				step := int64(binary.LittleEndian.Uint64(row))
				if step < before[i] || binary.LittleEndian.Uint64(row[8:]) != uint64(slot) || int64(binary.LittleEndian.Uint64(row[16:])) != ^step {
					t.Errorf("row %d is of step %d, and that of step %d was in the log before: %x", slot, step, before[i], row)
					return
				}
				reads++
			}
		}
	}()
	for step := int64(1); step <= epochs; step++ {
		var list []int32
		var rows []byte
		for slot := range int32(slots) {
			if r.IntN(8) == 0 {
				list = append(list, slot)
				rows = binary.LittleEndian.AppendUint64(rows, uint64(step))
				rows = binary.LittleEndian.AppendUint64(rows, uint64(slot))
				rows = binary.LittleEndian.AppendUint64(rows, uint64(^step))
			}
		}
		if err := l.Append(step, list, rows, nil); err != nil {
			t.Fatal(err)
		}
		for _, slot := range list {
			newest[slot].Store(step)
		}
		l.Settle(step - 1)
		if err := l.Clean(int64(len(rows))); err != nil {
			t.Fatal(err)
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	ended.Store(true)
	<-done
	if reads == 0 || l.copied == 0 || l.files[0].number == 1 {
		t.Errorf("%d rows were read, %d bytes copied, the first file is %d", reads, l.copied, l.files[0].number)
	}
}

// TestReadFilesStay: a file that is cleaned is removed once no Reader reads it, while Readers read others.
func TestReadFilesStay(t *testing.T) {
	dir := NewMemDir(rand.New(rand.NewPCG(1, 2)))
	l, err := Open(Options{Dir: dir, RowBytes: Align, Slots: 100, Owners: 1, FileBytes: 64 << 10, Lock: &sync.Mutex{}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.CutTo(0); err != nil {
		t.Fatal(err)
	}
	step := int64(0)
	appendEpochs := func(n int) {
		for range n {
			step++
			list := []int32{int32(step % 7), 10 + int32(step%5)}
			if err := l.Append(step, list, make([]byte, 2*Align), nil); err != nil {
				t.Fatal(err)
			}
			l.Settle(step)
			if err := l.Clean(1 << 20); err != nil {
				t.Fatal(err)
			}
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	appendEpochs(20)
	early, late := l.NewReader(), l.NewReader()
	early.find([]int32{int32(step % 7)}, nil)
	number := early.list[0].file.number
	appendEpochs(50)
	late.find([]int32{int32(step % 7)}, nil)
	if dir.files[number] == nil || number == late.list[0].file.number {
		t.Fatalf("file %d was removed while it was read, or is still in use", number)
	}
	early.end()
	appendEpochs(20)
	if dir.files[number] != nil {
		t.Errorf("file %d is not removed", number)
	}
	if number = late.list[0].file.number; dir.files[number] == nil {
		t.Errorf("file %d was removed while it was read", number)
	}
	late.end()
}

// TestSort: sorting keeps all slots, and puts them in the order of their places.
func TestSort(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	l, err := Open(Options{Dir: NewMemDir(r), RowBytes: 4, Slots: 100, Owners: 1, FileBytes: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.CutTo(0); err != nil {
		t.Fatal(err)
	}
	newest := map[int32]int64{}
	for step := int64(1); step < 30; step++ {
		list := []int32{int32(r.IntN(30)), int32(30 + r.IntN(30)), int32(60 + r.IntN(30))}
		if err := l.Append(step, list, make([]byte, 12), nil); err != nil {
			t.Fatal(err)
		}
		for i, slot := range list {
			newest[slot] = 3*step + int64(i)
		}
	}
	slots := make([]int32, 0, 100)
	for _, slot := range r.Perm(100) {
		slots = append(slots, int32(slot))
	}
	l.NewReader().Sort(slots)
	if !slices.IsSortedFunc(slots, func(a, b int32) int { return int(newest[a] - newest[b]) }) {
		t.Errorf("%d", slots)
	}
	if slices.Sort(slots); len(slices.Compact(slots)) != 100 {
		t.Error("slots are lost")
	}
}
