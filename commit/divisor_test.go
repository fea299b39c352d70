package commit

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestDivisor(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, by := range []int32{1, 2, 3, 4, 5, 7, 8, 63, 64, 255, 1 << 15, 1<<16 - 1, 1 << 16, 1 + r.Int32N(1<<16)} {
		d := newDivisor(int(by))
		for i := range 1000 {
			slot := r.Int32()
			switch multiple := slot - slot%by; i % 4 { // also at the borders
			case 1:
				slot = multiple
			case 2:
				slot = max(multiple, 1) - 1
			case 3:
				slot = math.MaxInt32 - int32(i)
			}
			if q, rest := d.quotient(slot); q != slot/by || rest != slot%by {
				t.Fatalf("%d / %d = %d, rest %d", slot, by, q, rest)
			}
		}
	}
}

// isZero gives the same result as a look at each bit, for rows whose bits are in one word and in two or more.
func TestIsZero(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, data := range []int{1, 3, 4, 7, 63, 64, 65, 130} {
		const rows = 300
		p := &parityRows{folded: newBitset(int64(rows * data))}
		p.group.Size, p.group.Parity = data+1, 1
		for range rows {
			p.folded.set(r.Int64N(int64(rows * data)))
		}
		for at := range int64(rows) {
			want := true
			for column := range data {
				want = want && !p.isMarked(at, column)
			}
			if got := p.isZero(at); got != want {
				t.Fatalf("%d columns, row %d: %v, not %v", data, at, got, want)
			}
		}
	}
}
