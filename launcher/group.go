package launcher

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

// group is this keeper's part in agreeing on the log of events.
type group struct {
	self      keeper
	raft      *raft.Raft
	transport *raft.NetworkTransport
	voters    func() (wanted, lost []keeper)
	settling  sync.Mutex // one goroutine changes who votes
}

// joinGroup makes this keeper one that can vote. The founder begins the log, alone; it
// leads at once and takes in the others.
func joinGroup(self keeper, founder bool, machine raft.FSM, d *door, heartbeat time.Duration, voters func() (wanted, lost []keeper), log io.Writer) (*group, error) {
	silent := max(silentBeats*heartbeat, 50*time.Millisecond)
	logger := hclog.New(&hclog.LoggerOptions{Name: "raft", Level: hclog.Info, DisableTime: true, Output: debugLog(log, self.Number)})
	g := &group{self: self, voters: voters, transport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: d, MaxPool: 2, Timeout: silent, Logger: logger})}
	c := raft.DefaultConfig()
	c.LocalID, c.Logger = raft.ServerID(self.ID), logger
	// The links find sooner that a leader is gone or silent (stand). A leader that reaches
	// too few finds so itself.
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 2*silent, 2*silent, silent
	c.CommitTimeout = silent          // until a follower hears what is agreed on; the leader acts at once
	c.ShutdownOnRemove = false        // it may vote again
	c.NoSnapshotRestoreOnStart = true // there is none
	store := raft.NewInmemStore()
	var err error
	if g.raft, err = raft.NewRaft(c, machine, store, store, raft.NewInmemSnapshotStore(), g.transport); err != nil {
		return nil, fmt.Errorf("cannot agree with the other supervisors: %w", err)
	}
	if founder {
		first := raft.Configuration{Servers: []raft.Server{{ID: c.LocalID, Address: raft.ServerAddress(self.Door)}}}
		if err := g.raft.BootstrapCluster(first).Error(); err != nil {
			return nil, fmt.Errorf("cannot agree with the other supervisors: %w", err)
		}
		go g.stand()
	}
	return g, nil
}

// debugLog is a log for what only those read who look for a fault.
func debugLog(w io.Writer, keeper int) io.Writer {
	return debugLines{zerolog.New(w).With().Timestamp().Int("supervisor", keeper).Logger()}
}

type debugLines struct{ log zerolog.Logger }

func (d debugLines) Write(p []byte) (int, error) {
	d.log.Debug().Msg(oneLine(string(p)))
	return len(p), nil
}

// propose adds an event to the log, if this keeper leads.
func (g *group) propose(text []byte) { g.raft.Apply(text, 0) }

// follow tells of the terms in which this keeper leads: when all that was agreed on
// before is known here, and when it leads no more.
func (g *group) follow(leads func(term uint64), ends func()) {
	for leading := range g.raft.LeaderCh() {
		if !leading {
			ends()
			continue
		}
		term := g.raft.CurrentTerm()
		if g.raft.Barrier(0).Error() == nil {
			leads(term)
		}
	}
}

// stand has this keeper stand for election now, as one that a leader hands over to.
func (g *group) stand() {
	if g.raft.State() == raft.Leader {
		return
	}
	now := raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}
	_ = g.transport.TimeoutNow(raft.ServerID(g.self.ID), raft.ServerAddress(g.self.Door), &now, &raft.TimeoutNowResponse{}) // else it stands later
}

// led reports whether this keeper knows of a leader.
func (g *group) led() bool {
	_, id := g.raft.LeaderWithID()
	return id != ""
}

// settle has those vote whom the job wants, one change after the other.
func (g *group) settle() {
	g.settling.Lock()
	defer g.settling.Unlock()
	for g.raft.State() == raft.Leader {
		now := g.raft.GetConfiguration()
		if now.Error() != nil {
			return
		}
		change := g.change(now.Configuration().Servers)
		if change == nil {
			return
		}
		if change().Error() != nil {
			time.Sleep(dialAgain)
		}
	}
}

// change is what brings those who vote nearer to those wanted: the lost leave, others
// come, and then those leave that are one too many, this keeper last. nil: nothing.
func (g *group) change(servers []raft.Server) func() raft.IndexFuture {
	wanted, lost := g.voters()
	among := func(keepers []keeper, s raft.Server) bool {
		return slices.ContainsFunc(keepers, func(k keeper) bool { return k.ID == string(s.ID) })
	}
	remove := func(s raft.Server) func() raft.IndexFuture {
		return func() raft.IndexFuture { return g.raft.RemoveServer(s.ID, 0, 0) }
	}
	for _, s := range servers {
		if among(lost, s) {
			return remove(s)
		}
	}
	for _, k := range wanted {
		if !slices.ContainsFunc(servers, func(s raft.Server) bool { return k.ID == string(s.ID) }) {
			return func() raft.IndexFuture { return g.raft.AddVoter(raft.ServerID(k.ID), raft.ServerAddress(k.Door), 0, 0) }
		}
	}
	last := slices.IndexFunc(servers, func(s raft.Server) bool { return string(s.ID) == g.self.ID })
	for i, s := range servers {
		if i != last && !among(wanted, s) {
			return remove(s)
		}
	}
	if last >= 0 && !among(wanted, servers[last]) {
		return remove(servers[last])
	}
	return nil
}

// close leaves the others. The library may wait for one that is gone for ever (its pipeline
// has no room, and nobody reads it), so it has a limit.
func (g *group) close() { within(leaveLimit, g.raft.Shutdown()) }

// agreed waits until all is known here that was proposed here, for a while.
func (g *group) agreed(limit time.Duration) { within(limit, g.raft.Barrier(limit)) }

func within(limit time.Duration, f raft.Future) {
	over := make(chan struct{})
	go func() {
		_ = f.Error() // who leaves, or hears of it no more, goes on alike
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(limit):
	}
}
