package launcher

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/ecrec/ecrec/launcher/control"
)

// consensus is a member's part in agreeing on the log of events (Raft).
type consensus struct {
	self      control.Member
	raft      *raft.Raft
	transport *raft.NetworkTransport
	logger    hclog.Logger
	voters    func() (wanted, lost []control.Member)
	changing  sync.Mutex // held by the goroutine that changes the voters
}

// consensusConfig is the parameters of joinConsensus.
type consensusConfig struct {
	self      control.Member
	founder   bool // it begins the log, leads at once and adds the others
	machine   raft.FSM
	network   raft.StreamLayer
	heartbeat time.Duration
	voters    func() (wanted, lost []control.Member)
	log       io.Writer
}

// joinConsensus makes a member one that can vote.
func joinConsensus(c consensusConfig) (*consensus, error) {
	silent := max(silentBeats*c.heartbeat, 50*time.Millisecond)
	logger := raftLogger(c.log, c.self.Number)
	g := &consensus{self: c.self, voters: c.voters, logger: logger, transport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: c.network, MaxPool: 2, Timeout: silent, Logger: logger})}
	config := raft.DefaultConfig()
	config.LocalID, config.Logger = raft.ServerID(c.self.ID), logger
	// The links detect sooner that a leader is gone or silent (startCampaign). A leader
	// that reaches too few voters detects that itself.
	config.HeartbeatTimeout, config.ElectionTimeout, config.LeaderLeaseTimeout = 2*silent, 2*silent, silent
	config.CommitTimeout = silent          // until a follower applies committed entries; the leader acts at once
	config.ShutdownOnRemove = false        // it may vote again
	config.NoSnapshotRestoreOnStart = true // there is none
	store := raft.NewInmemStore()
	var err error
	if g.raft, err = raft.NewRaft(config, c.machine, store, store, raft.NewInmemSnapshotStore(), g.transport); err != nil {
		return nil, fmt.Errorf("cannot agree with the other supervisors: %w", err)
	}
	if c.founder {
		first := raft.Configuration{Servers: []raft.Server{{ID: config.LocalID, Address: raft.ServerAddress(c.self.Endpoint)}}}
		if err := g.raft.BootstrapCluster(first).Error(); err != nil {
			return nil, fmt.Errorf("cannot agree with the other supervisors: %w", err)
		}
		go g.startCampaign()
	}
	return g, nil
}

// propose appends an event to the log, if this member leads.
func (g *consensus) propose(text []byte) { g.raft.Apply(text, 0) }

// watchLeadership calls leads when this member leads and has applied all earlier entries,
// and ends when it leads no more.
func (g *consensus) watchLeadership(leads func(term uint64), ends func()) {
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

// startCampaign has this member campaign for leadership at once, as in a leader's handover.
func (g *consensus) startCampaign() {
	if g.raft.State() == raft.Leader {
		return
	}
	now := raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}
	_ = g.transport.TimeoutNow(raft.ServerID(g.self.ID), raft.ServerAddress(g.self.Endpoint), &now,
		&raft.TimeoutNowResponse{}) // on an error it campaigns after the election timeout
}

// hasLeader reports whether there is a leader, as far as this member has observed.
func (g *consensus) hasLeader() bool {
	_, id := g.raft.LeaderWithID()
	return id != ""
}

// changeVoters makes the members that the job chose the voters, one change after the other.
func (g *consensus) changeVoters() {
	const retryEvery = 20 * time.Millisecond
	g.changing.Lock()
	defer g.changing.Unlock()
	for g.raft.State() == raft.Leader {
		now := g.raft.GetConfiguration()
		if now.Error() != nil {
			return
		}
		change := g.nextChange(now.Configuration().Servers)
		if change == nil {
			return
		}
		if change().Error() != nil {
			time.Sleep(retryEvery)
		}
	}
}

// nextChange is the next step from the present voters to the job's choice. It removes
// lost members, adds chosen ones, and then removes the surplus, this member last. nil: there
// is no difference.
func (g *consensus) nextChange(servers []raft.Server) func() raft.IndexFuture {
	wanted, lost := g.voters()
	among := func(members []control.Member, s raft.Server) bool {
		return slices.ContainsFunc(members, func(m control.Member) bool { return m.ID == string(s.ID) })
	}
	remove := func(s raft.Server) func() raft.IndexFuture {
		return func() raft.IndexFuture { return g.raft.RemoveServer(s.ID, 0, 0) }
	}
	for _, s := range servers {
		if among(lost, s) {
			return remove(s)
		}
	}
	for _, m := range wanted {
		if !slices.ContainsFunc(servers, func(s raft.Server) bool { return m.ID == string(s.ID) }) {
			return func() raft.IndexFuture {
				return g.raft.AddVoter(raft.ServerID(m.ID), raft.ServerAddress(m.Endpoint), 0, 0)
			}
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

// muteLog ends the library's log. At the job's end the voters leave one after the other, and
// the library would report each as an error.
func (g *consensus) muteLog() { g.logger.SetLevel(hclog.Off) }

// shutDown leaves the other voters. The library may wait for ever for one that is gone (its
// pipeline is full, and nothing empties it), so the wait is bounded.
func (g *consensus) shutDown() {
	g.muteLog()
	awaitAtMost(leaveLimit, g.raft.Shutdown())
}

// awaitApplied waits until everything proposed here is applied here, for limit at most.
func (g *consensus) awaitApplied(limit time.Duration) { awaitAtMost(limit, g.raft.Barrier(limit)) }

func awaitAtMost(limit time.Duration, f raft.Future) {
	over := make(chan struct{})
	go func() {
		_ = f.Error() // a member that leaves can do nothing about it
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(limit):
	}
}
