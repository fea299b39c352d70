package commit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/placement"
)

// checkSurvey checks that both ways of a survey, for few rows and for many, have the same result.
func (c *cluster) checkSurvey(t *testing.T, r *rand.Rand, lost []Loss) {
	t.Helper()
	for _, m := range c.members {
		p, stripes := m.p, m.p.group.Stripes(m.p.o.Slots)
		p.rebuild.lost = slices.Clone(lost)
		for owner := p.group.First; owner < p.group.First+p.group.Size; owner++ {
			few, all, touched := newBitset(stripes), newBitset(stripes), bitset(p.o.Shard.TouchedBits())
			p.markMembers(few, touched, owner)
			p.markStripes(all, touched, owner)
			if owner != p.owner && !slices.Equal(few, all) {
				t.Fatalf("owner %d reports of %d %x and %x", p.owner, owner, few, all)
			}
		}
		differs := newBitset(stripes)
		for s := range stripes {
			if r.IntN(3) == 0 {
				differs.set(s)
			}
		}
		had, left := [2]bitset{p.rebuild.missing, p.unbuilt}, [2]int64{p.rebuild.left.Load(), p.missing.Load()}
		restore := func() (sets [2]bitset, numbers [2]int64) {
			sets, numbers = [2]bitset{p.rebuild.missing, p.unbuilt}, [2]int64{p.rebuild.left.Load(), p.missing.Load()}
			p.rebuild.missing, p.unbuilt = slices.Clone(had[0]), slices.Clone(had[1])
			p.rebuild.left.Store(left[0])
			p.missing.Store(left[1])
			return sets, numbers
		}
		restore()
		p.keepListed(differs)
		few, fewLeft := restore()
		p.dropUnlisted(differs)
		all, allLeft := restore()
		if fewLeft != allLeft || left[0] > 0 && !slices.Equal(few[0], all[0]) || left[1] > 0 && !slices.Equal(few[1], all[1]) {
			t.Fatalf("owner %d: %d and %d of %d are left, %x and %x", p.owner, fewLeft, allLeft, left, few, all)
		}
	}
}

// BenchmarkSurvey is the time in which a rank of five finds the rows that another may have lost, of which one in some was used,
// and in which the other one skips the rest.
func BenchmarkSurvey(b *testing.B) {
	for _, part := range []int64{2, 20} {
		b.Run(fmt.Sprint("1 of ", part), func(b *testing.B) {
			c := newClusterOf(b, ec.XOR, 5, 4, 1, 10, placement.New([]int64{20_000_000}, 5), 1, 0)
			p, r := c.members[0].p, rand.New(rand.NewPCG(1, 2))
			for slot := range p.o.Shard.Slots() {
				if r.Int64N(part) == 0 {
					bitset(p.o.Shard.TouchedBits()).set(slot)
				}
			}
			for bit := range p.Rows() * 4 {
				if r.Int64N(part) == 0 {
					p.folded.set(bit)
				}
			}
			p.rebuild.lost = make([]Loss, 5)
			fresh := c.members[2].p
			b.ResetTimer()
			for range b.N {
				fresh.Lose()
				fresh.skipZeros(p.mayDiffer(2))
			}
		})
	}
}
