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

// The last message is printed by the leader: a first voter that does not lead may end before it receives the event.
func TestPrinterOfTheEnd(t *testing.T) {
	j := NewJob(Shape{Processes: 3, Ranks: 3, Elastic: true}, Limits{})
	j.Voting, j.Leader = []int{1, 2}, 2
	if got := j.Printer(); got != 1 {
		t.Errorf("member %d prints, want the first voter", got)
	}
	j.endJob(0, "")
	j.Leader = 1 // of a late event
	if got := j.Printer(); got != 2 {
		t.Errorf("member %d prints the end, want the leader", got)
	}
}
