package ec

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// member is the rows of one owner, and its parity rows.
type member struct {
	rows, parity [][]byte
}

// cluster is owners whose rows are protected as in training: every row starts as zeros (XOR its
// init), and every update is one delta to each parity holder.
type cluster struct {
	layout Layout
	codes  []*Code // of each group
	owners []member
	size   int
}

func newCluster(t *testing.T, name string, l Layout, rows int64, size int) *cluster {
	c := &cluster{layout: l, size: size, owners: make([]member, l.Owners)}
	for i := range l.Groups() {
		g := l.Group(i)
		code, err := NewCode(name, g.Data(), g.Parity)
		if err != nil {
			t.Fatal(err)
		}
		c.codes = append(c.codes, code)
		most := (rows + int64(l.Owners) - 1) / int64(l.Owners)
		for o := g.First; o < g.First+g.Size; o++ {
			slots := int(rows+int64(l.Owners-1-o)) / l.Owners
			c.owners[o] = member{zeros(slots, size), zeros(int(g.ParityRows(o, most)), size)}
		}
	}
	return c
}

// update sets a row and sends its delta to the parity holders.
func (c *cluster) update(r *rand.Rand, owner, slot int) {
	g, delta := c.layout.GroupOf(owner), make([]byte, c.size)
	next := make([]byte, c.size)
	fill(r, next)
	Delta(delta, c.owners[owner].rows[slot], next)
	c.owners[owner].rows[slot] = next
	stripe, column := g.Stripe(owner, int64(slot))
	for j := range g.Parity {
		holder, row := g.Holder(stripe, g.Data()+j)
		c.codes[c.group(owner)].Fold(c.owners[holder].parity[row], delta, column, j)
	}
}

func (c *cluster) group(owner int) int { return owner / (c.layout.Data + c.layout.Parity) }

// shard is a shard of a stripe, nil if its holder has no such slot.
func (c *cluster) shard(g Group, stripe int64, shard int) []byte {
	owner, row := g.Holder(stripe, shard)
	if shard >= g.Data() {
		return c.owners[owner].parity[row]
	}
	if rows := c.owners[owner].rows; row < int64(len(rows)) {
		return rows[row]
	}
	return nil
}

// recovered decodes a row or parity row of a lost owner, if all owners in lost are.
func (c *cluster) recovered(t *testing.T, g Group, stripe int64, owner int, lost []int) []byte {
	t.Helper()
	var erased []int
	for _, o := range lost {
		shard, _ := g.Shard(stripe, o)
		erased = append(erased, shard)
	}
	want, _ := g.Shard(stripe, owner)
	d, err := c.codes[c.group(owner)].Decoder(erased, []int{want})
	if err != nil {
		t.Fatal(err)
	}
	var src [][]byte
	for _, shard := range d.Reads {
		src = append(src, c.shard(g, stripe, shard))
	}
	dst := zeros(1, c.size)
	fill(rand.New(rand.NewPCG(1, 2)), dst...)
	d.Decode(dst, src)
	return dst[0]
}

// check decodes all rows and parity rows of lost owners of one group.
func (c *cluster) check(t *testing.T, lost []int) {
	t.Helper()
	for _, owner := range lost {
		g := c.layout.GroupOf(owner)
		for slot, row := range c.owners[owner].rows {
			stripe, _ := g.Stripe(owner, int64(slot))
			if !bytes.Equal(c.recovered(t, g, stripe, owner, lost), row) {
				t.Fatalf("%+v, lost %d: slot %d of owner %d is decoded wrongly", c.layout, lost, slot, owner)
			}
		}
		for i, row := range c.owners[owner].parity {
			stripe, _ := g.ParityStripe(owner, int64(i))
			if !bytes.Equal(c.recovered(t, g, stripe, owner, lost), row) {
				t.Fatalf("%+v, lost %d: parity row %d of owner %d is decoded wrongly", c.layout, lost, i, owner)
			}
		}
	}
}

// TestLostOwnersAreRecovered: after random updates, the rows and parity rows of any r owners of a
// group are decoded from the others. Some last groups are short, and some owners have one slot
// less.
func TestLostOwnersAreRecovered(t *testing.T) {
	for _, c := range []struct {
		name         string
		owners, k, r int
		rows         int64
	}{
		{XOR, 5, 4, 1, 83}, {XOR, 2, 1, 1, 11}, {XOR, 8, 4, 1, 61}, {XOR, 3, 8, 1, 40},
		{RS, 6, 4, 2, 95}, {RS, 3, 1, 2, 13}, {RS, 9, 4, 2, 101}, {RS, 15, 8, 3, 200}, {RS, 6, 2, 1, 3}, {None, 3, 3, 0, 20},
	} {
		t.Run(fmt.Sprintf("%s %d owners k=%d r=%d", c.name, c.owners, c.k, c.r), func(t *testing.T) {
			r := random(t)
			l, err := NewLayout(c.owners, c.k, c.r)
			if err != nil {
				t.Fatal(err)
			}
			cluster := newCluster(t, c.name, l, c.rows, 20)
			for range 5 {
				for range r.IntN(int(c.rows)) {
					if owner := r.IntN(c.owners); len(cluster.owners[owner].rows) > 0 {
						cluster.update(r, owner, r.IntN(len(cluster.owners[owner].rows)))
					}
				}
				for i := range l.Groups() {
					g := l.Group(i)
					lost := r.Perm(g.Size)[:g.Parity]
					for j := range lost {
						lost[j] += g.First
					}
					cluster.check(t, lost)
				}
			}
		})
	}
}
