package sim

import (
	"errors"
	"slices"

	"github.com/ecrec/ecrec/transport"
)

// world is a generation as stored in the register. It is immutable.
type world struct {
	generation uint64
	slots      []slot
	spares     []int // hosts that can replace another
	trained    bool  // there was a commit before, and the register knows it
	why        []string
}

// slot is a process of a world.
type slot struct {
	host, incarnation int
	ranks             []int // none: they were reassigned
	accused           bool  // it was reported unreachable, and there was no commit since
}

func (s *slot) isReassigned() bool { return len(s.ranks) == 0 }

// processOn returns the process that a host runs, -1 if none.
func (w *world) processOn(host int) int {
	return slices.IndexFunc(w.slots, func(s slot) bool { return !s.isReassigned() && s.host == host })
}

// copyNext returns a copy to be changed into the next world.
func (w *world) copyNext() *world {
	n := &world{generation: w.generation + 1, slots: slices.Clone(w.slots), spares: slices.Clone(w.spares)}
	for i := range n.slots {
		n.slots[i].ranks = slices.Clone(n.slots[i].ranks)
	}
	return n
}

// Results of unreachedBy that are not the number of a process.
const (
	noProcess      = -1
	unknownProcess = -2 // it is not known which
)

// reassign moves a process to a spare, or its ranks to the processes with the fewest
// ranks. It reports false if there is neither.
func (w *world) reassign(process int) bool {
	s := &w.slots[process]
	if len(w.spares) > 0 {
		s.host, s.incarnation, s.accused = w.spares[0], s.incarnation+1, false
		w.spares = w.spares[1:]
		return true
	}
	ranks := s.ranks
	s.ranks = nil
	for _, r := range ranks {
		least := noProcess
		for p := range w.slots {
			if q := &w.slots[p]; !q.isReassigned() && (least == noProcess || len(q.ranks) < len(w.slots[least].ranks)) {
				least = p
			}
		}
		if least == noProcess {
			s.ranks = ranks
			return false
		}
		heir := &w.slots[least]
		at, _ := slices.BinarySearch(heir.ranks, r)
		heir.ranks = slices.Insert(heir.ranks, at, r)
	}
	return true
}

// unreachedBy returns the process that err reports as lost.
func (w *world) unreachedBy(err error) int {
	var peer *transport.PeerLost
	var join *transport.JoinError
	at := -1
	switch {
	case errors.As(err, &peer):
		at = slices.IndexFunc(w.slots, func(s slot) bool { return slices.Contains(s.ranks, peer.Rank) })
	case errors.As(err, &join):
		at = w.hosting()[join.Process]
	}
	if at < 0 {
		return unknownProcess
	}
	return at
}

// hosting returns the processes that host ranks, as package transport numbers them.
func (w *world) hosting() (list []int) {
	for p := range w.slots {
		if !w.slots[p].isReassigned() {
			list = append(list, p)
		}
	}
	return list
}
