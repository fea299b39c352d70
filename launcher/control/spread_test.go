package control

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// jobOn is a job with supervisors on these machines, spares last.
func jobOn(ranks, spares int, machines ...string) *Job {
	j := NewJob(Shape{Processes: len(machines) - spares, Spares: spares, Ranks: ranks, Elastic: true, MaxRestarts: 100},
		Limits{Meet: time.Minute, Reform: 10 * time.Second, End: 5 * time.Second})
	for n, m := range machines {
		j.addMember(Member{Number: n, Host: m, Endpoint: fmt.Sprintf("d:%d", n), ID: fmt.Sprintf("id%d", n)})
	}
	return j
}

func (j *Job) hosted() (ranks [][]int) {
	for _, s := range j.Slots {
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

// With the same number of processes on each of n machines, no two of n consecutive ranks share a
// machine. Every rank is hosted once.
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

// The spare on the machine with the fewest processes replaces a lost supervisor.
func TestRoomiest(t *testing.T) {
	j := jobOn(3, 3, "a", "b", "c", "a", "d", "b")
	lost := func(n int, want int) {
		t.Helper()
		p := j.processOf(n)
		j.loseSupervisor(n, isGone)
		if got := j.Slots[p].Supervisor; got != want {
			t.Errorf("supervisor %d replaces that of process %d, want %d", got, p, want)
		}
	}
	lost(0, 3) // machine a has no live process
	lost(1, 4)
	lost(3, 5)
}

// Reassigned ranks move back to the process that began with them.
func TestTurnIsKept(t *testing.T) {
	j := jobOn(4, 0, "a", "a", "b", "b")
	before := fmt.Sprint(j.hosted())
	j.loseSupervisor(1, isGone)
	if got := fmt.Sprint(j.hosted()); got == before {
		t.Fatalf("no rank is reassigned: %s", got)
	}
	j.addLateMember(Member{Number: 1, Place: 1, Host: "a", Endpoint: "d:9", ID: "id9"})
	for _, p := range []int{0, 2, 3} {
		j.receive(j.Slots[p].Supervisor, Message{Kind: KindListening, Addr: "x:1", Generation: j.Generation})
	}
	j.receive(0, Message{Kind: KindCommitted, Generation: j.Generation, FullyRedundant: true})
	if got := fmt.Sprint(j.hosted()); got != before {
		t.Errorf("hosted %s, began with %s", got, before)
	}
}
