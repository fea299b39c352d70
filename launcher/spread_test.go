package launcher

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// jobOn is a job whose supervisors have come from machines, spares last.
func jobOn(ranks, spares int, machines ...string) *job {
	j := newJob(shape{processes: len(machines) - spares, spares: spares, ranks: ranks, elastic: true, maxRestarts: 100}, defaultLimits())
	for n, m := range machines {
		j.join(keeper{Number: n, Host: m, Door: fmt.Sprintf("d:%d", n), ID: fmt.Sprintf("id%d", n)})
	}
	return j
}

func (j *job) hosted() (ranks [][]int) {
	for _, s := range j.Seats {
		ranks = append(ranks, s.Ranks)
	}
	return ranks
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		ranks    int
		machines []string
		want     string
	}{
		{5, []string{"a", "a", "a"}, "[[0 3] [1 4] [2]]"},
		{4, []string{"a", "a", "b", "b"}, "[[0] [2] [1] [3]]"},
		{8, []string{"a", "a", "b", "b"}, "[[0 4] [2 6] [1 5] [3 7]]"},
		{5, []string{"a", "b", "b", "b", "c"}, "[[0] [1] [3] [4] [2]]"},
		{4, []string{"a", "b", "a", "b"}, "[[0] [1] [2] [3]]"},
	} {
		if got := fmt.Sprint(jobOn(c.ranks, 0, c.machines...).hosted()); got != c.want {
			t.Errorf("%d ranks on %v: %s, want %s", c.ranks, c.machines, got, c.want)
		}
	}
}

// Of as many neighbours in rank as there are machines with equally many processes, no two are on
// one machine; every rank is somewhere, once.
func TestSpreadEvenly(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		n, each, more := 1+r.IntN(8), 1+r.IntN(4), r.IntN(3)
		var machines []string
		for m := range n {
			for range each {
				machines = append(machines, fmt.Sprint("m", m))
			}
		}
		r.Shuffle(len(machines), func(i, k int) { machines[i], machines[k] = machines[k], machines[i] })
		ranks := n*each + more*n
		where := make([]string, ranks)
		for p, own := range jobOn(ranks, 0, machines...).hosted() {
			for _, rank := range own {
				if where[rank] != "" {
					t.Fatalf("seed %d: rank %d is hosted twice, machines %v", seed, rank, machines)
				}
				where[rank] = machines[p]
			}
		}
		for first := 0; first+n <= ranks; first++ {
			if group := slices.Compact(slices.Sorted(slices.Values(where[first : first+n]))); len(group) != n || group[0] == "" {
				t.Fatalf("seed %d: ranks from %d on are on %v, machines %v", seed, first, where[first:first+n], machines)
			}
		}
	}
}

// A spare takes a place on a machine that others have left, before one that is crowded.
func TestRoomiest(t *testing.T) {
	j := jobOn(3, 3, "a", "b", "c", "a", "d", "b")
	lost := func(n int, want int) {
		t.Helper()
		p := j.processOf(n)
		j.lose(n, isGone)
		if got := j.Seats[p].Supervisor; got != want {
			t.Errorf("supervisor %d takes process %d, want %d", got, p, want)
		}
	}
	lost(0, 3) // nobody is left on a
	lost(1, 4)
	lost(3, 5)
}

// Ranks that were adopted come back to the process that began with them.
func TestTurnIsKept(t *testing.T) {
	j := jobOn(4, 0, "a", "a", "b", "b")
	before := fmt.Sprint(j.hosted())
	j.lose(1, isGone)
	if got := fmt.Sprint(j.hosted()); got == before {
		t.Fatalf("nothing is adopted: %s", got)
	}
	j.returned(keeper{Number: 1, Place: 1, Host: "a", Door: "d:9", ID: "id9"})
	for _, p := range []int{0, 2, 3} {
		j.hear(j.Seats[p].Supervisor, message{Kind: kindListening, Addr: "x:1", Generation: j.Generation})
	}
	j.hear(0, message{Kind: kindCommitted, Generation: j.Generation, Whole: true})
	if got := fmt.Sprint(j.hosted()); got != before {
		t.Errorf("hosted %s, began with %s", got, before)
	}
}
