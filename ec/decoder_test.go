package ec

import (
	"bytes"
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestEveryErasure reconstructs every pattern of up to r lost shards, and every part of it. More
// lost shards are an error.
func TestEveryErasure(t *testing.T) {
	everyCode(t, func(t *testing.T, name string, c *Code) {
		r := random(t)
		n := c.Data() + c.Parity()
		shards := zeros(n, 2*36)
		fill(r, shards[:c.Data()]...)
		c.Encode(shards[c.Data():], shards[:c.Data()])
		for lost := range 1 << n {
			pattern := members(lost)
			if len(pattern) > c.Parity() {
				var e *TooManyLost
				if _, err := c.Decoder(pattern, pattern); !errors.As(err, &e) || !slices.Equal(e.Lost, pattern) {
					t.Fatalf("lost %d: %v", pattern, err)
				}
				continue
			}
			for writes := lost; ; writes = (writes - 1) & lost {
				checkDecoder(t, c, shards, pattern, members(writes))
				if writes == 0 {
					break
				}
			}
		}
	})
}

// checkDecoder checks a decoder against the shards of a stripe.
func checkDecoder(t *testing.T, c *Code, shards [][]byte, lost, writes []int) {
	t.Helper()
	d, err := c.Decoder(lost, writes)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.Writes, writes) || len(d.Reads) != c.Data() {
		t.Fatalf("lost %d: the decoder reads %d and writes %d, want %d", lost, d.Reads, d.Writes, writes)
	}
	src, dst := make([][]byte, len(d.Reads)), zeros(len(writes), len(shards[0]))
	for i, shard := range d.Reads {
		if slices.Contains(lost, shard) {
			t.Fatalf("the decoder reads shard %d, which is lost", shard)
		}
		src[i] = shards[shard]
	}
	for write := range writes { // one by one, from the last
		for read := len(src) - 1; read >= 0; read-- {
			addProduct(dst[write], src[read], d.Factor(write, read))
		}
		if !bytes.Equal(dst[write], shards[writes[write]]) {
			t.Fatalf("lost %d: shard %d added up is wrong", lost, writes[write])
		}
	}
	d.Decode(dst, src)
	for i, shard := range writes {
		if !bytes.Equal(dst[i], shards[shard]) {
			t.Fatalf("lost %d: shard %d is reconstructed wrongly from %d", lost, shard, d.Reads)
		}
	}
	if again, err := c.Decoder(slices.Repeat(lost, 2), writes); err != nil || again != d {
		t.Fatalf("lost %d: the matrix was inverted twice (%v)", lost, err)
	}
}

// members lists the bits of a set.
func members(set int) (list []int) {
	for ; set != 0; set &= set - 1 {
		list = append(list, bits.TrailingZeros(uint(set)))
	}
	return list
}

// TestErasuresOfWideCodes reconstructs random erasures of r shards of wide codes.
func TestErasuresOfWideCodes(t *testing.T) {
	r := random(t)
	for _, size := range [][2]int{{32, 4}, {100, 20}, {1, 255}, {252, 4}, {128, 128}, {255, 1}} {
		c, err := NewCode(RS, size[0], size[1])
		if err != nil {
			t.Fatal(err)
		}
		n := c.Data() + c.Parity()
		shards := zeros(n, 64)
		fill(r, shards[:c.Data()]...)
		c.Encode(shards[c.Data():], shards[:c.Data()])
		for range 10 {
			lost := r.Perm(n)[:c.Parity()]
			slices.Sort(lost)
			checkDecoder(t, c, shards, lost, lost)
		}
	}
}

// FuzzReconstruct decodes any loss after any updates, for shards of any size.
func FuzzReconstruct(f *testing.F) {
	f.Add(uint8(4), uint8(2), uint16(0b100001), uint16(64), uint64(1))
	f.Add(uint8(1), uint8(1), uint16(0b1), uint16(1), uint64(2))
	f.Add(uint8(8), uint8(3), uint16(0b10000000101), uint16(2*block+5), uint64(3))
	f.Fuzz(func(t *testing.T, k, parities uint8, lost, size uint16, seed uint64) {
		c, err := NewCode(RS, int(k)%12+1, int(parities)%4+1)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(seed, 0))
		n := c.Data() + c.Parity()
		shards, delta := zeros(n, int(size)), make([]byte, size)
		for range r.IntN(20) {
			column := r.IntN(c.Data())
			fill(r, delta)
			Delta(shards[column], shards[column], delta)
			for j := range c.Parity() {
				c.Fold(shards[c.Data()+j], delta, column, j)
			}
		}
		if pattern := members(int(lost) & (1<<n - 1)); len(pattern) <= c.Parity() {
			checkDecoder(t, c, shards, pattern, pattern)
		} else if _, err := c.Decoder(pattern, pattern); err == nil {
			t.Fatalf("%d lost shards have a decoder", len(pattern))
		}
	})
}
