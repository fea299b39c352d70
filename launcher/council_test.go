package launcher

import (
	"slices"
	"testing"
	"time"
)

// never is a future that the library does not complete.
type never struct{}

func (never) Error() error { select {} }

// A library that waits for ever keeps nobody from leaving.
func TestCloseIsBounded(t *testing.T) {
	over := make(chan struct{})
	go func() {
		within(10*time.Millisecond, never{})
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(patience):
		t.Fatal("it waits for ever")
	}
}

func TestMajority(t *testing.T) {
	voters := []keeper{{Number: 0}, {Number: 2}, {Number: 5}}
	for _, c := range []struct {
		there []int
		want  bool
	}{{nil, false}, {[]int{2}, false}, {[]int{1, 2, 3}, false}, {[]int{2, 5}, true}, {[]int{0, 2, 5}, true}} {
		if got := majority(voters, func(n int) bool { return slices.Contains(c.there, n) }); got != c.want {
			t.Errorf("majority of 0, 2, 5 with %v: %v", c.there, got)
		}
	}
}
