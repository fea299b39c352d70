package control

import (
	"slices"
	"testing"
)

func TestMajority(t *testing.T) {
	voters := []Member{{Number: 0}, {Number: 2}, {Number: 5}}
	for _, c := range []struct {
		there []int
		want  bool
	}{{nil, false}, {[]int{2}, false}, {[]int{1, 2, 3}, false}, {[]int{2, 5}, true}, {[]int{0, 2, 5}, true}} {
		if got := IsMajority(voters, func(n int) bool { return slices.Contains(c.there, n) }); got != c.want {
			t.Errorf("majority of 0, 2, 5 with %v: %v", c.there, got)
		}
	}
}
