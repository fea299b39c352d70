package digest

import "testing"

func TestSumCommutesAndCarries(t *testing.T) {
	a, b := Of("row", []byte{1}, []byte("x")), Sum{0, ^uint64(0)}
	x, y := a, b
	x.Add(b)
	y.Add(a)
	if x != y {
		t.Errorf("%v + %v depends on the order: %v, %v", a, b, x, y)
	}
	c := Sum{^uint64(0), ^uint64(0)}
	c.Add(Sum{0, 1})
	if c != (Sum{}) {
		t.Errorf("the sum is not modulo 2^128: %v", c)
	}
	if s := (Sum{1, 2}).String(); s != "00000000000000010000000000000002" {
		t.Errorf("printed as %s", s)
	}
}

// The hash depends on kind, key and value, and on the borders between them.
func TestPartsAreKeyed(t *testing.T) {
	seen := map[Sum]string{}
	for _, p := range [][3]string{{"row", "1", "ab"}, {"row", "1", "ac"}, {"row", "2", "ab"}, {"dense", "1", "ab"},
		{"row", "1a", "b"}, {"row1", "", "ab"}} {
		s := Of(p[0], []byte(p[1]), []byte(p[2]))
		if other, ok := seen[s]; ok {
			t.Errorf("%v and %s have one digest", p, other)
		}
		seen[s] = p[0] + "/" + p[1] + "/" + p[2]
	}
}
