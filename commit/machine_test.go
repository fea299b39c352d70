package commit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// machine is one of the three state machines.
type machine interface{ step(event) []action }

// TestMachines runs stories: each line is an event, then the actions that must follow.
func TestMachines(t *testing.T) {
	expecting := func(ranks int) machine {
		d := &decision{}
		d.expectRanks(ranks)
		return d
	}
	for _, s := range []struct {
		name  string
		of    machine
		story string
	}{
		{"an epoch", &owner{}, `
			boundary 10: seal 10
			decided 10: forget 10
			boundary 20: seal 20`},
		{"a seal waits for the commit of the epoch before", &owner{}, `
			boundary 10: seal 10
			boundary 20: meet 10
			decided 10: forget 10, seal 20
			decided 10:
			decided 20: forget 20`},
		{"a loss undoes what is not committed", &owner{}, `
			boundary 10: seal 10
			boundary 20: meet 10
			rolled 0: undo 0
			boundary 5: seal 5`},
		{"a rank that has not decided a commit rolls forward to it", &owner{}, `
			boundary 10: seal 10
			rolled 10: forget 10, undo 10
			boundary 20: seal 20`},
		{"a run begins again", &owner{}, `
			boundary 10: seal 10
			began 7:
			boundary 8: seal 8
			rolled 7: undo 7`},

		{"deltas are folded when the commit is decided", &holder{}, `
			sealed 10: stage 10
			staged 10:
			decided 10: fold 10
			decided 10:
			sealed 20: stage 20`},
		{"deltas that are not staged are not folded", &holder{}, `
			sealed 10: stage 10
			decided 10:
			rolled 0: drop 10`},
		{"staged deltas are dropped after a loss", &holder{}, `
			sealed 10: stage 10
			staged 10:
			sealed 20: stage 20
			rolled 0: drop 10, drop 20
			sealed 10: stage 10`},
		{"staged deltas are folded after a loss if a rank has committed them", &holder{}, `
			sealed 10: stage 10
			staged 10:
			sealed 20: stage 20
			rolled 10: fold 10, drop 20`},

		{"the least status decides", expecting(3), `
			status of 2 20:
			status of 0 10:
			status of 1 30: decide 10`},
		{"two statuses of one rank count once", expecting(2), `
			status of 0 10:
			status of 0 20:
			status of 1 20: decide 20`},
		{"a commit is decided once", expecting(1), `
			decided 10:
			status of 0 10:`},
		{"after a loss statuses count from the commit rolled back to", expecting(1), `
			status of 0 20: decide 20
			rolled 20:`},
	} {
		t.Run(strings.ReplaceAll(s.name, " ", "_"), func(t *testing.T) {
			for line := range strings.Lines(strings.TrimSpace(s.story)) {
				what, want, _ := strings.Cut(strings.TrimSpace(line), ":")
				if got := actionText(s.of.step(parseEvent(t, what))); got != strings.TrimSpace(want) {
					t.Fatalf("%s: %q, want %q", what, got, strings.TrimSpace(want))
				}
			}
		})
	}
}

func actionText(do []action) string {
	var all []string
	for _, a := range do {
		all = append(all, a.String())
	}
	return strings.Join(all, ", ")
}

func parseEvent(t *testing.T, s string) (e event) {
	t.Helper()
	fields := strings.Fields(s)
	e.kind = eventKind(slices.Index(eventNames[:], fields[0]))
	if e.kind == status {
		fields = fields[1:]
		if _, err := fmt.Sscan(fields[1], &e.rank); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fmt.Sscan(fields[len(fields)-1], &e.step); err != nil || e.String() != s {
		t.Fatalf("%q is no event: %v", s, err)
	}
	return e
}

// TestMachinesRefuse sends events that break the protocol, on which machines panic.
func TestMachinesRefuse(t *testing.T) {
	for _, x := range []struct {
		of   machine
		then event
	}{
		{&owner{committed: 10}, event{kind: boundary, step: 10}},
		{&owner{sealed: []int64{10}, waiting: 20}, event{kind: boundary, step: 30}},
		{&owner{committed: 10}, event{kind: rolled, step: 5}},
		{&owner{committed: 10}, event{kind: rolled, step: 20}},
		{&owner{}, event{kind: staged}},
		{&holder{}, event{kind: staged, step: 10}},
		{&holder{prepared: 10, epochs: []int64{10}}, event{kind: rolled, step: 20}},
		{&holder{}, event{kind: status}},
		{&decision{}, event{kind: status}},
		{&decision{}, event{kind: sealed}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%T accepts %v at %+v", x.of, x.then, x.of)
				}
			}()
			x.of.step(x.then)
		}()
	}
}

// node is one rank of a model cluster: its machines, and the effects of their actions.
type node struct {
	owner
	holder
	decision
	arriving []int64 // epochs whose deltas are on their way to this node
	folded   []int64
	undone   int
}

// carryOut does the actions of the node's machines, except meet: waits reports that.
func (n *node) carryOut(t *testing.T, do []action) (waits bool) {
	for _, a := range do {
		switch a.kind {
		case meet:
			waits = true
		case seal:
			n.carryOut(t, n.holder.step(event{kind: sealed, step: a.step}))
		case stage:
			n.arriving = append(n.arriving, a.step)
		case fold:
			if slices.Contains(n.arriving, a.step) {
				t.Fatalf("epoch %d is folded before it has arrived", a.step)
			}
			n.folded = append(n.folded, a.step)
		case drop:
			n.arriving = slices.DeleteFunc(n.arriving, func(step int64) bool { return step == a.step })
		case decide:
			n.commit(t, a.step)
		case undo:
			n.undone++
		}
	}
	return waits
}

func (n *node) commit(t *testing.T, step int64) {
	n.decision.step(event{kind: decided, step: step})
	n.carryOut(t, n.holder.step(event{kind: decided, step: step}))
	n.carryOut(t, n.owner.step(event{kind: decided, step: step}))
}

// receive receives the oldest deltas on their way.
func (n *node) receive(t *testing.T) {
	if len(n.arriving) > 0 {
		step := n.arriving[0]
		n.arriving = n.arriving[1:]
		n.carryOut(t, n.holder.step(event{kind: staged, step: step}))
	}
}

// TestMachinesTogether runs clusters of machines in random orders, with losses at any moment.
// All nodes must end at one commit. Each holder must have folded the epochs up to it, each
// once, and no other epoch.
func TestMachinesTogether(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	losses, forward := 0, 0
	for range 300 {
		l, f := runMachines(t, r)
		losses, forward = losses+l, forward+f
	}
	if losses == 0 || forward == 0 {
		t.Errorf("%d losses, after %d of which some nodes rolled forward: nothing was tested", losses, forward)
	}
}

func runMachines(t *testing.T, r *rand.Rand) (losses, forward int) {
	nodes := make([]*node, 1+r.IntN(5))
	for i := range nodes {
		nodes[i] = &node{}
	}
	every := int64(1 + r.IntN(4))
	for step := int64(1); step < 60; step++ {
		statuses := make([]int64, len(nodes))
		for i, n := range nodes {
			for range r.IntN(3) {
				n.receive(t)
			}
			statuses[i] = n.prepared
		}
		lost := r.IntN(12) == 0
		var waits []*node
		for _, i := range r.Perm(len(nodes)) { // until the world ends
			if lost && r.IntN(len(nodes)) == 0 {
				break
			}
			n := nodes[i]
			n.expectRanks(len(nodes))
			for _, rank := range r.Perm(len(nodes)) {
				n.carryOut(t, n.decision.step(event{kind: status, step: statuses[rank], rank: rank}))
			}
			if end := step - 1; end > n.newestSealed() && end%every == 0 && n.carryOut(t, n.owner.step(event{kind: boundary, step: end})) {
				waits = append(waits, n)
			}
		}
		if !lost && len(waits) > 0 { // all meet once all deltas have arrived
			for _, n := range nodes {
				for len(n.arriving) > 0 {
					n.receive(t)
				}
			}
			for _, n := range nodes {
				n.commit(t, n.newestSealed())
			}
		}
		if lost {
			losses++
			step = rollTogether(t, nodes, &forward)
		}
		for i, n := range nodes {
			if len(n.sealed) > maxSealed {
				t.Fatalf("node %d has %d epochs sealed", i, len(n.sealed))
			}
		}
	}
	rollTogether(t, nodes, &forward)
	return losses, forward
}

// rollTogether ends a world, and checks the state of all nodes after it.
func rollTogether(t *testing.T, nodes []*node, forward *int) int64 {
	to := int64(0)
	for _, n := range nodes {
		to = max(to, n.owner.committed)
	}
	for i, n := range nodes {
		if n.owner.committed < to {
			*forward++
		}
		n.decision.step(event{kind: rolled, step: to})
		n.carryOut(t, n.holder.step(event{kind: rolled, step: to}))
		n.carryOut(t, n.owner.step(event{kind: rolled, step: to}))
		if n.owner.committed != to || n.decision.committed != to || n.prepared != to || len(n.sealed)+len(n.epochs)+len(n.arriving) > 0 {
			t.Fatalf("node %d, rolled to step %d: %+v", i, to, n)
		}
		if !slices.Equal(n.folded, nodes[0].folded) || !slices.IsSorted(n.folded) ||
			len(slices.Compact(slices.Clone(n.folded))) != len(n.folded) {
			t.Fatalf("node %d has folded %v, node 0 %v", i, n.folded, nodes[0].folded)
		}
		if last := append([]int64{0}, n.folded...); last[len(last)-1] != to {
			t.Fatalf("node %d has folded %v at the commit of step %d", i, n.folded, to)
		}
	}
	return to
}
