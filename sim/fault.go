package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/ecrec/ecrec/internal/probe"
)

// kindOf describes a kind of fault.
type kindOf struct {
	name   string
	weight int
	linked bool          // only if processes communicate over connections
	hold   time.Duration // maximum duration, of a fault that lasts
}

// The kinds of faults.
const (
	killWorker        = "kill worker"        // SIGKILL
	freezeWorker      = "freeze worker"      // SIGSTOP, then SIGCONT, unless its supervisor finds it silent and kills it
	resetConnections  = "reset connections"  // all connections of a worker break
	powerLoss         = "power loss"         // of a host, which restarts without its state
	freezeHost        = "freeze host"        // the supervisor and the worker are stopped and resumed
	networkPartition  = "partition"          // hosts cannot reach the others, in one direction or both
	registerPartition = "register partition" // a host cannot reach the register
	slowNetwork       = "slow network"       // packets to and from a host are delayed
	dropPacket        = "drop packet"        // violates the guarantees of a connection, as do the next two
	duplicatePacket   = "duplicate packet"
	corruptPacket     = "corrupt packet"
	holdGoroutine     = "hold goroutine" // a goroutine of a worker is held, and another fault is injected meanwhile
)

// kinds are all kinds of faults, with the weights of their draws.
var kinds = [...]kindOf{
	{name: killWorker, weight: 8},
	{name: freezeWorker, weight: 2, hold: 3 * time.Second},
	{name: resetConnections, weight: 2},
	{name: powerLoss, weight: 2, hold: 3 * time.Second},
	{name: freezeHost, weight: 1, hold: 3 * time.Second},
	{name: networkPartition, weight: 2, linked: true, hold: 3 * time.Second},
	{name: registerPartition, weight: 1, hold: 3 * time.Second},
	{name: slowNetwork, weight: 1, linked: true, hold: 2 * time.Second},
	{name: dropPacket, weight: 1, linked: true},
	{name: duplicatePacket, weight: 1, linked: true},
	{name: corruptPacket, weight: 1, linked: true},
	{name: holdGoroutine},
}

// kindNamed returns the kind with a name that is drawn, or nil.
func kindNamed(name string) *kindOf {
	if i := slices.IndexFunc(kinds[:], func(k kindOf) bool { return k.name == name && k.weight > 0 }); i >= 0 {
		return &kinds[i]
	}
	return nil
}

// fault is one fault.
type fault struct {
	kind string
	host int
	// When: if point is set, when a rank on the host reaches it at the given step or
	// later. Otherwise a number of decisions after the first rank reaches a step, or
	// after a world has begun.
	step  int64
	point probe.Point
	world uint64
	after int64
	hold  time.Duration
	with  []int  // of partition: the hosts on the same side
	way   int    // of partition: 0 both directions, 1 outgoing, 2 incoming
	then  *fault // of holdGoroutine: the fault injected meanwhile
}

func (f fault) String() string {
	when := fmt.Sprintf("%d decisions after the start of step %d", f.after, f.step)
	switch {
	case f.then != nil:
		return fmt.Sprintf("%s on host %d, at %q from step %d on, for %v; meanwhile %v", f.kind, f.host, f.point, f.step, f.hold, f.then)
	case f.point != 0:
		when = fmt.Sprintf("at %q from step %d on", f.point, f.step)
	case f.step == 0 && f.world == 0:
		when = fmt.Sprintf("%d decisions later", f.after)
	case f.world > 0:
		when = fmt.Sprintf("%d decisions after the start of world %d", f.after, f.world)
	}
	if f.hold > 0 {
		when += fmt.Sprintf(", for %v", f.hold)
	}
	what := fmt.Sprintf("%s on host %d", f.kind, f.host)
	if f.kind == networkPartition {
		what = fmt.Sprintf("%s of hosts %v, %s", f.kind, f.with, []string{"both directions", "outgoing", "incoming"}[f.way])
	}
	return what + ", " + when
}
