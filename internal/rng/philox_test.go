package rng

import "testing"

// The known answers of Random123 (kat_vectors, philox4x32 with 10 rounds).
func TestKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		key       [2]uint32
		ctr, want [4]uint32
	}{
		{[2]uint32{}, [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[2]uint32{^uint32(0), ^uint32(0)}, [4]uint32{^uint32(0), ^uint32(0), ^uint32(0), ^uint32(0)},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := Philox(c.key, c.ctr); got != c.want {
			t.Errorf("Philox(%x, %x) = %x, want %x", c.key, c.ctr, got, c.want)
		}
	}
}

// Draw depends on every documented bit of its arguments.
func TestDrawUsesItsArguments(t *testing.T) {
	base := Draw(1, RowInit, 2, 3, 4)
	for what, other := range map[string][4]uint32{
		"seed":       Draw(1^1<<63, RowInit, 2, 3, 4),
		"purpose":    Draw(1, DenseInit, 2, 3, 4),
		"group":      Draw(1, RowInit, 2^1<<31, 3, 4),
		"item":       Draw(1, RowInit, 2, 3^1, 4),
		"item, high": Draw(1, RowInit, 2, 3^1<<47, 4),
		"block":      Draw(1, RowInit, 2, 3, 5),
	} {
		if other == base {
			t.Errorf("another %s draws the same", what)
		}
	}
}

func TestRanges(t *testing.T) {
	for _, u := range []uint32{0, 1, 255, 256, 511, 512, 1 << 31, 1<<31 - 1, ^uint32(0)} {
		if x := Unit(u); !(x >= 0 && x < 1) {
			t.Errorf("Unit(%#x) = %v", u, x)
		}
		x := Symmetric(u)
		if !(x > -1 && x < 1) || x == 0 || Symmetric(^u) != -x {
			t.Errorf("Symmetric(%#x) = %v, of its complement %v", u, x, Symmetric(^u))
		}
	}
}

func TestDrawFirsts(t *testing.T) {
	for i := range uint64(1000) {
		a, b := [2]uint32{uint32(i * 77), uint32(i * 3001)}, [2]uint64{i * 123456789, i<<40 | 5}
		x, y := DrawFirsts(i*i, Shuffle, a, b, uint32(i))
		if want := [2]uint32{Draw(i*i, Shuffle, a[0], b[0], uint32(i))[0], Draw(i*i, Shuffle, a[1], b[1],
			uint32(i))[0]}; x != want[0] || y != want[1] {
			t.Fatalf("items %d: %x and %x, want %x", i, x, y, want)
		}
	}
}
