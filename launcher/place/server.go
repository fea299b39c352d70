package place

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/wire"
)

// Server is the host's end of the rendezvous. A supervisor that joins before the job begins
// takes the place of its number. Later supervisors, and supervisors that join at another member, join
// the running job.
type Server struct {
	// JoinRunning requests that the running job accepts a supervisor, and returns the reply;
	// nil: the job accepts none.
	JoinRunning func(control.Member) (control.Message, error)

	place  Place
	number int    // of the member that runs the server
	digest string // that all processes must have in common
	wire.Acceptor

	mu     sync.Mutex
	claims map[int]claim // taken places; nil: all
}

// claim is the process that has taken a place.
type claim struct {
	id          string
	connections int
}

// NewServer makes a server for the member of that number. digest must be equal on all
// processes. limit bounds a handshake.
func NewServer(p Place, number int, secret []byte, digest string, limit time.Duration) *Server {
	s := &Server{place: p, number: number, digest: digest}
	s.Key, s.Limit, s.Forget = p.Rendezvous.handshakeKey(secret), limit, s.releaseClaim
	s.Check = func(m control.Message) (control.Message, error) {
		welcome, err := s.CheckJoin(m)
		if p.Rendezvous.Network == "unix" {
			welcome.Secret = secret
		}
		return welcome, err
	}
	return s
}

// HostJob opens the places for the job's first supervisors. host is taken.
func (s *Server) HostJob(host control.Member) {
	s.claims = map[int]claim{host.Number: {host.ID, 1}}
}

// ServeJoins authenticates the supervisors that dial a listener, until that is closed, and
// calls join for each that has taken a place. Supervisors that join the running job dial
// the voters afterwards, so their connections are closed.
func (s *Server) ServeJoins(l net.Listener, join func(wire.Peer)) {
	s.Serve(l, func(p wire.Peer) {
		if len(p.Welcome.Voters) > 0 {
			p.Conn.Close()
			return
		}
		join(p)
	})
}

// CheckJoin decides whether a peer that has the secret may join, and returns the reply.
func (s *Server) CheckJoin(m control.Message) (welcome control.Message, err error) {
	p := s.place
	switch {
	case m.Kind != control.KindJoin || m.Member == nil || m.Member.Number < 0 || m.Member.Number >= p.Processes && m.Processes == p.Processes:
		return m, wire.ErrProtocol
	case m.Processes != p.Processes:
		return m, fmt.Errorf("process %d was started as one of %d, process 0 as one of %d; start all with the same number",
			m.Member.Number, m.Processes, p.Processes)
	case m.Job != s.digest:
		return m, fmt.Errorf("process %d and process 0 were started with different configs or programs; give all the same", m.Member.Number)
	}
	if s.claimPlace(*m.Member) {
		return control.Message{Kind: control.KindWelcome, Process: s.number}, nil
	}
	if s.JoinRunning == nil {
		return m, fmt.Errorf("process %d has joined already; two processes were started with this number", m.Member.Number)
	}
	late := *m.Member
	late.Place = late.Number
	return s.JoinRunning(late)
}

// claimPlace takes a place, unless another process has it. The same process may dial again
// before the end of its first connection is detected.
func (s *Server) claimPlace(m control.Member) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, taken := s.claims[m.Number]
	if s.claims == nil || taken && c.id != m.ID {
		return false
	}
	s.claims[m.Number] = claim{m.ID, c.connections + 1}
	return true
}

// releaseClaim releases the place of a process that has disconnected.
func (s *Server) releaseClaim(m control.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, taken := s.claims[m.Member.Number]
	switch {
	case !taken || c.id != m.Member.ID: // it has joined a running job
	case c.connections == 1:
		delete(s.claims, m.Member.Number)
	default:
		s.claims[m.Member.Number] = claim{c.id, c.connections - 1}
	}
}
