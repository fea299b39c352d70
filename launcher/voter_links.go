package launcher

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/wire"
)

// voterLinks are a supervisor's connections to the voters, and the voter that leads.
type voterLinks struct {
	voters  []control.Member
	links   map[int]*link     // by voter
	lostAt  map[int]time.Time // when the last connection to a voter ended
	dialing map[int]bool
	leader  int // control.None: there is none
	term    uint64
	limit   *time.Timer // bounds the time without a leader
	unled   int         // how often the leader was lost
}

const (
	redialEvery = 100 * time.Millisecond
	// campaignGap staggers the voters' campaigns after the loss of a leader, so that one gets
	// all votes.
	campaignGap = 100 * time.Millisecond
)

func newVoterLinks() voterLinks {
	return voterLinks{links: map[int]*link{}, lostAt: map[int]time.Time{}, dialing: map[int]bool{}, leader: control.None}
}

// addVoterLink takes a connection to a voter.
func (s *supervisor) addVoterLink(voter int, conn *wire.Conn) {
	l := &link{Conn: conn}
	s.links[voter] = l
	go func() {
		l.receiveAll(func(m control.Message) { s.post(func() { s.receiveFromVoter(voter, m) }) })
		s.post(func() { s.removeVoterLink(voter, l) })
	}()
}

// receiveFromVoter handles a voter's message: its own, or the job's.
func (s *supervisor) receiveFromVoter(voter int, m control.Message) {
	switch m.Kind {
	case control.KindLead:
		s.followLeader(voter, m.Term)
	case control.KindFollow:
		if voter == s.leader {
			s.loseLeader()
		}
	case control.KindVoters:
		s.voters = m.Voters
		s.dialVoters()
	case control.KindEnd:
		s.receiveEnd(m)
	default:
		s.step(control.Event{Kind: control.EventReceive, Message: &m})
	}
}

// countedLost is why a supervisor ends that lives.
const countedLost = "the job counts it as lost"

// receiveEnd ends this supervisor. It prints why if the others continue without it.
func (s *supervisor) receiveEnd(m control.Message) {
	if m.Text != "" && !s.launched && !s.left { // with a launcher, that reports it
		s.spec.printLine(fmt.Sprintf("process %d ends: %s", s.number, m.Text), true)
	}
	s.counted = s.counted || m.Text == countedLost
	s.step(control.Event{Kind: control.EventReceive, Message: &m})
}

// followLeader takes a voter for the leader from now on.
func (s *supervisor) followLeader(voter int, term uint64) {
	if term < s.term || voter == s.leader && term == s.term {
		return
	}
	s.leader, s.term = voter, term
	if s.limit != nil {
		s.limit.Stop()
		s.limit = nil
	}
	if l := s.links[voter]; l != nil {
		l.beginWatch()
	}
	s.step(control.Event{Kind: control.EventLed})
}

// leaderlessLimit is how long there may be no leader if this supervisor reaches no majority
// that could elect one.
func (s *supervisor) leaderlessLimit() time.Duration { return leaderlessBeats * s.spec.Heartbeat }

// loseLeader handles the loss of the leader. If there will be no other, the job is lost.
func (s *supervisor) loseLeader() {
	old := s.leader
	s.leader = control.None
	s.unled++
	if !s.wasOutvoted(old) && !slices.ContainsFunc(s.voters, func(v control.Member) bool { return v.Number != old }) { // no other voter
		s.loseJob("process 0 is lost: its supervisor is gone")
		return
	}
	s.replaceLeader(old)
	s.awaitLeader()
}

func (s *supervisor) loseJob(why string) {
	s.step(control.Event{Kind: control.EventLeaderless, Text: why})
}

// awaitLeader ends this supervisor if there is no leader in time. A majority that is connected
// has more time: on a loaded machine two voters may campaign at once and neither win.
func (s *supervisor) awaitLeader() {
	if s.limit == nil {
		s.awaitLeaderOnce(1)
	}
}

func (s *supervisor) awaitLeaderOnce(times int) {
	s.limit = time.AfterFunc(s.leaderlessLimit(), func() {
		s.post(func() {
			switch {
			case s.leader != control.None:
			case times < electionTimes && control.IsMajority(s.voters, func(n int) bool { return n == s.number || s.links[n] != nil }):
				s.awaitLeaderOnce(times + 1)
			default:
				s.loseJob(minorityText(s.voters))
			}
		})
	})
}

// minorityText is the message of a job that ends because its voters cannot agree.
func minorityText(voters []control.Member) string {
	var names []string
	for _, v := range voters {
		names = append(names, strconv.Itoa(v.Number))
	}
	return "too few are left of the supervisors that vote on the job's state (" + strings.Join(names, ", ") +
		"): a majority must live; resume from a checkpoint with --resume auto"
}

// removeVoterLink handles the end of a connection to a voter.
func (s *supervisor) removeVoterLink(voter int, l *link) {
	if s.links[voter] != l {
		return
	}
	delete(s.links, voter)
	s.lostAt[voter] = time.Now()
	if voter == s.leader {
		s.loseLeader()
	}
	s.dialVoters()
}

// replaceLeader has this supervisor campaign for the place of the old leader, which is gone,
// silent, or this one and outvoted. It must be a voter, and voters before it in the list
// campaign first. It campaigns again until there is a leader: two at once may both fail, and
// one that lacks an event may block one that has it.
func (s *supervisor) replaceLeader(old int) {
	rest := slices.DeleteFunc(slices.Clone(s.voters), func(v control.Member) bool { return v.Number == old && !s.wasOutvoted(old) })
	at := slices.IndexFunc(rest, func(v control.Member) bool { return v.Number == s.number })
	if at >= 0 {
		s.campaignAfter(time.Duration(at)*campaignGap, time.Duration(2*len(rest))*campaignGap, s.unled, s.term)
	}
}

// wasOutvoted reports whether this supervisor was the leader and may lead again. In a job of
// the local launcher it may not: the others could have ended the job while it was suspended.
func (s *supervisor) wasOutvoted(old int) bool { return old == s.number && !s.launched }

// campaignAfter campaigns after wait, and then every again, until there is a leader. A
// voter that has voted since term waits for the candidate, which may have won.
func (s *supervisor) campaignAfter(wait, again time.Duration, unled int, term uint64) {
	time.AfterFunc(wait, func() {
		s.post(func() {
			if s.leader == control.None && s.unled == unled && !s.left {
				now := s.controller.consensus.raft.CurrentTerm()
				if now == term {
					go s.controller.consensus.startCampaign()
				}
				s.campaignAfter(again, again, unled, now)
			}
		})
	})
}

// dialVoters connects to the voters that are not linked.
func (s *supervisor) dialVoters() {
	if s.left {
		return
	}
	for _, v := range s.voters {
		if v.Number == s.number || s.links[v.Number] != nil || s.dialing[v.Number] {
			continue
		}
		s.dialing[v.Number] = true
		go func() {
			conn, _, err := wire.Dial(v.Endpoint, s.secret, control.Message{Kind: control.KindVisit, Process: s.number}, s.limits.handshake)
			s.post(func() { s.finishDial(v, conn, err) })
		}()
	}
}

func (s *supervisor) finishDial(v control.Member, conn *wire.Conn, err error) {
	delete(s.dialing, v.Number)
	switch {
	case err == nil:
		s.addVoterLink(v.Number, conn)
	case errors.Is(err, wire.Refusal{Text: errLost.Error(), Verified: true}): // this supervisor is lost
		s.receiveEnd(control.Message{Kind: control.KindEnd, Code: control.ExitFailed, Text: countedLost})
	default:
		time.AfterFunc(redialEvery, func() { s.post(s.dialVoters) })
	}
}

// sendJob sends a message to the leader. Without a leader it sends nothing: the state machine
// repeats its messages to the next.
func (s *supervisor) sendJob(m control.Message) {
	if s.leader == s.number {
		s.controller.receive(s.number, m)
	} else if l := s.links[s.leader]; l != nil {
		l.sendOrClose(m)
	}
}

// checkLeader runs once per heartbeat: it sends one to the leader, and detects a silent
// leader.
func (s *supervisor) checkLeader() {
	l := s.links[s.leader]
	if l == nil {
		return
	}
	l.sendOrClose(control.Message{Kind: control.KindHeartbeat})
	if l.countTick() {
		s.loseLeader()
	}
}

// printsForOthers reports whether this supervisor prints why the supervisors end that have no
// leader: the first of them, as far as it can observe. A voter whose connection has ended just
// now was there to print it.
func (s *supervisor) printsForOthers() bool {
	if s.launched {
		return false // the launcher prints it
	}
	if len(s.voters) == 0 {
		return s.number == 1
	}
	return !slices.ContainsFunc(s.voters, func(v control.Member) bool {
		return v.Number < s.number && (s.links[v.Number] != nil || len(s.voters) > 1 && time.Since(s.lostAt[v.Number]) < s.leaderlessLimit()/2)
	})
}

func (v *voterLinks) closeLinks() {
	if v.limit != nil {
		v.limit.Stop()
	}
	for _, l := range v.links {
		l.Close()
	}
}
