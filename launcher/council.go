package launcher

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// council is a supervisor's view of who keeps the job: those that vote, its connections to
// them, and the one that leads.
type council struct {
	voters  []keeper
	links   map[int]*link     // by voter
	parted  map[int]time.Time // when the last connection to a voter ended
	dialing map[int]bool
	leader  int // nobody: none is known
	term    uint64
	limit   *time.Timer // to be without a leader
	unleds  int         // how often there was none
}

const (
	redialEvery = 100 * time.Millisecond
	// standGap is between those who stand for election when a leader is lost, so that
	// one gets all votes.
	standGap = 100 * time.Millisecond
)

func newCouncil() council {
	return council{links: map[int]*link{}, parted: map[int]time.Time{}, dialing: map[int]bool{}, leader: nobody}
}

// reached takes a connection to a voter.
func (s *supervisor) reached(voter int, w *wire) {
	l := &link{wire: w}
	s.links[voter] = l
	go func() {
		l.listen(func(m message) { s.post(func() { s.hearVoter(voter, m) }) })
		s.post(func() { s.partVoter(voter, l) })
	}()
}

// hearVoter takes what a voter says: of itself, or for the job.
func (s *supervisor) hearVoter(voter int, m message) {
	switch m.Kind {
	case kindLead:
		s.follow(voter, m.Term)
	case kindFollow:
		if voter == s.leader {
			s.unled()
		}
	case kindVoters:
		s.voters = m.Voters
		s.reach()
	default:
		s.do(s.member.hear(m))
	}
}

// follow has a voter for leader from now on.
func (s *supervisor) follow(voter int, term uint64) {
	if term < s.term || voter == s.leader && term == s.term {
		return
	}
	s.leader, s.term = voter, term
	if s.limit != nil {
		s.limit.Stop()
		s.limit = nil
	}
	if l := s.links[voter]; l != nil {
		l.missed = 0
	}
	s.do(s.member.lead())
}

// leaderlessLimit is how long there may be no leader, where no majority is reached that could
// choose one.
func (s *supervisor) leaderlessLimit() time.Duration { return leaderlessBeats * s.spec.Heartbeat }

// unled has no leader. If none comes, the job is lost.
func (s *supervisor) unled() {
	old := s.leader
	s.leader = nobody
	s.unleds++
	if !s.outvoted(old) && !slices.ContainsFunc(s.voters, func(k keeper) bool { return k.Number != old }) { // nobody else ever leads
		s.do(s.member.loseJob("process 0 is lost: its supervisor is gone"))
		return
	}
	s.standFor(old)
	s.waitForLeader()
}

// waitForLeader ends this supervisor if nobody comes to lead. A majority that is there chooses
// one, though on a loaded machine two may stand at once and neither win: it has longer.
func (s *supervisor) waitForLeader() {
	if s.limit == nil {
		s.waitOnce(1)
	}
}

func (s *supervisor) waitOnce(times int) {
	s.limit = time.AfterFunc(s.leaderlessLimit(), func() {
		s.post(func() {
			switch {
			case s.leader != nobody:
			case times < electionTimes && majority(s.voters, func(n int) bool { return n == s.number || s.links[n] != nil }):
				s.waitOnce(times + 1)
			default:
				s.do(s.member.loseJob(minorityText(s.voters)))
			}
		})
	})
}

// electionTimes is how many leaderlessLimits a majority has to choose a leader.
const electionTimes = 4

// majority reports whether enough of the voters are there to agree.
func majority(voters []keeper, there func(number int) bool) bool {
	n := 0
	for _, k := range voters {
		if there(k.Number) {
			n++
		}
	}
	return n > len(voters)/2
}

// minorityText says why a job ends whose voters cannot agree.
func minorityText(voters []keeper) string {
	var names []string
	for _, k := range voters {
		names = append(names, strconv.Itoa(k.Number))
	}
	return "too few are left of the supervisors that keep the job's state (" + strings.Join(names, ", ") + "): a majority must live; go on from a checkpoint with --resume auto"
}

// partVoter takes the end of a connection to a voter.
func (s *supervisor) partVoter(voter int, l *link) {
	if s.links[voter] != l {
		return
	}
	delete(s.links, voter)
	s.parted[voter] = time.Now()
	if voter == s.leader {
		s.unled()
	}
	s.reach()
}

// standFor offers this supervisor as leader where the old one is gone or silent, or was
// this one and has been outvoted: if it votes, and nobody before it in the list has been
// chosen. It does so again and again, since two that stand at once may both fail, or who has
// missed an event may stand in the way of who has not.
func (s *supervisor) standFor(old int) {
	rest := slices.DeleteFunc(slices.Clone(s.voters), func(k keeper) bool { return k.Number == old && !s.outvoted(old) })
	at := slices.IndexFunc(rest, func(k keeper) bool { return k.Number == s.number })
	if at >= 0 {
		s.standIn(time.Duration(at)*standGap, time.Duration(2*len(rest))*standGap, s.unleds, s.term)
	}
}

// outvoted reports whether this supervisor has led and may lead again. A launcher may not: it
// could have stood still while the others ended the job.
func (s *supervisor) outvoted(old int) bool { return old == s.number && !s.launched }

// standIn stands after a while, and then again, until there is a leader. Who has voted since
// term lets the other, who may have won already, have the turn.
func (s *supervisor) standIn(wait, again time.Duration, unleds int, term uint64) {
	time.AfterFunc(wait, func() {
		s.post(func() {
			if s.leader == nobody && s.unleds == unleds && !s.left {
				now := s.board.group.raft.CurrentTerm()
				if now == term {
					go s.board.group.stand()
				}
				s.standIn(again, again, unleds, now)
			}
		})
	})
}

// reach goes to the voters to which there is no connection.
func (s *supervisor) reach() {
	if s.left {
		return
	}
	for _, k := range s.voters {
		if k.Number == s.number || s.links[k.Number] != nil || s.dialing[k.Number] {
			continue
		}
		s.dialing[k.Number] = true
		go func() {
			w, _, err := knock(k.Door, s.secret, message{Kind: kindVisit, Process: s.number}, s.limits)
			s.post(func() { s.dialed(k, w, err) })
		}()
	}
}

func (s *supervisor) dialed(k keeper, w *wire, err error) {
	delete(s.dialing, k.Number)
	switch {
	case err == nil:
		s.reached(k.Number, w)
	case errors.Is(err, refusal(errLost.Error())): // this one
		s.do(s.member.hear(message{Kind: kindEnd, Code: exitFailed}))
	default:
		time.AfterFunc(redialEvery, func() { s.post(s.reach) })
	}
}

// tellJob is the member's message to the job. Where nobody leads, the member tells the next
// leader.
func (s *supervisor) tellJob(m message) {
	if s.leader == s.number {
		s.board.hear(s.number, m)
	} else if l := s.links[s.leader]; l != nil {
		l.tell(m)
	}
}

// tick shows the leader that this supervisor lives, and finds one that is silent.
func (s *supervisor) tick() {
	l := s.links[s.leader]
	if l == nil {
		return
	}
	l.tell(message{Kind: kindBeat})
	if l.tick() {
		s.unled()
	}
}

// speaksForTheRest reports whether it is this supervisor that says why those end whom the
// job has left: the first of them, as far as it can know. One whose connection has
// ended just now was there to say it.
func (s *supervisor) speaksForTheRest() bool {
	if s.launched {
		return false // the launcher says it
	}
	if len(s.voters) == 0 {
		return s.number == 1
	}
	return !slices.ContainsFunc(s.voters, func(k keeper) bool {
		return k.Number < s.number && (s.links[k.Number] != nil || len(s.voters) > 1 && time.Since(s.parted[k.Number]) < s.leaderlessLimit()/2)
	})
}

func (c *council) close() {
	if c.limit != nil {
		c.limit.Stop()
	}
	for _, l := range c.links {
		l.conn.Close()
	}
}
