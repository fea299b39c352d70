package store

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ecrec/ecrec/rowlog"
)

// memFolder is a folder in memory.
type memFolder struct{ *rowlog.MemDir }

func (memFolder) Close() {}

// laterRead is rows that are read some time after they were found.
type laterRead struct {
	list spilledRows
	want [][]byte
}

// TestSpill writes, reads and drops rows at random, and compares them with those in a map. The file stays small.
func TestSpill(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const slots, rowBytes = 3000, 20
	dir := rowlog.NewMemDir(r)
	p := newSpill(func() (Dir, error) { return memFolder{dir}, nil }, slots, rowBytes)
	type version struct {
		row  []byte
		mark int64
	}
	rows, most, late := map[int32]version{}, 0, 0
	var readings []*laterRead
	for mark := int64(1); mark < 3000; mark++ {
		switch x := r.IntN(20); {
		case x < 8:
			var list []int32
			for range 1 + r.IntN(40) {
				list = append(list, int32(r.IntN(slots)))
			}
			slices.Sort(list)
			list = slices.Compact(list)
			b := make([]byte, len(list)*rowBytes)
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			if r.IntN(20) == 0 {
				dir.FailIn(1)
				if err := p.write(list, b, mark); err == nil {
					t.Fatal("a write that failed is reported as done")
				}
				dir.FailIn(0)
			}
			must(t, p.write(list, b, mark))
			for i, slot := range list {
				rows[slot] = version{bytes.Clone(b[i*rowBytes : (i+1)*rowBytes]), mark}
			}
		case x < 9:
			upTo := mark - int64(r.IntN(300))
			p.drop(upTo)
			for slot, v := range rows {
				if v.mark <= upTo {
					delete(rows, slot)
				}
			}
		case x == 9 && r.IntN(50) == 0 && len(readings) == 0:
			p.dropAll()
			clear(rows)
		case x == 10 && len(readings) < 5:
			l := &laterRead{}
			var list []int32
			for slot, v := range rows {
				if list, l.want = append(list, slot), append(l.want, v.row); len(list) > r.IntN(60) {
					break
				}
			}
			if missing := p.find(&l.list, list, nil); len(missing) > 0 {
				t.Fatalf("rows %d are missing", missing)
			}
			p.beginReads(&l.list)
			readings = append(readings, l)
		case x == 11 && len(readings) > 0:
			l := readings[0]
			readings = readings[1:]
			got := make([]byte, len(l.want)*rowBytes)
			must(t, l.list.read(got, rowBytes)) // also rows that were spilled again or dropped since then
			if !bytes.Equal(got, bytes.Join(l.want, nil)) {
				t.Fatal("rows that are read later differ")
			}
			p.endReads(&l.list)
			late += len(l.want)
		default:
			list := []int32{int32(r.IntN(slots)), int32(r.IntN(slots))}
			for slot := range rows {
				if list = append(list, slot); len(list) > 30 {
					break
				}
			}
			got := make([]byte, len(list)*rowBytes)
			missing, err := p.read(list, got, nil)
			must(t, err)
			for i, slot := range list {
				v, has := rows[slot]
				if has == slices.Contains(missing, int32(i)) || has && !bytes.Equal(v.row, got[i*rowBytes:(i+1)*rowBytes]) {
					t.Fatalf("row %d: there %t, or its bytes differ", slot, has)
				}
			}
		}
		live := 0
		for _, b := range p.batches {
			live += int(b.at.end - b.at.at)
		}
		free := 0
		for i, x := range p.free {
			free += int(x.end - x.at)
			if x.end <= x.at || x.end >= p.end || i > 0 && p.free[i-1].end >= x.at {
				t.Fatalf("free extents %v of %d bytes", p.free, p.end)
			}
		}
		if int64(live+free) != p.end {
			t.Fatalf("%d bytes of batches and %d free ones in a file of %d", live, free, p.end)
		}
		most = max(most, int(p.end))
	}
	if late == 0 {
		t.Error("no row was read later")
	}
	for _, l := range readings {
		p.endReads(&l.list)
	}
	if most > 4<<20 {
		t.Errorf("the file had %d bytes", most)
	}
	// A damaged row is found.
	must(t, p.write([]int32{7}, make([]byte, rowBytes), 5000))
	must(t, p.file.WriteAt(bytes.Repeat([]byte{1}, rowlog.Align), p.batches[p.last].at.at))
	if _, err := p.read([]int32{7}, make([]byte, rowBytes), nil); err == nil {
		t.Error("a damaged row was read")
	}
	p.removeFile()
	if left, err := dir.List(); err != nil || len(left) > 0 {
		t.Errorf("files %v are left", left)
	}
}
