package transport

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/internal/rng"
)

// Faults is an Injector made of rules. It is a pure function of the seed and the message,
// so that the faults of a run can be repeated.
type Faults struct {
	seed  uint64
	rules []rule
}

// rule is an action (see Fault) and its conditions, which must all hold.
type rule struct {
	action      string
	delay       time.Duration // the maximum of a delay, which is drawn uniformly from zero up
	rank, peer  int           // anyRank: all
	direction   string        // send, recv or, if empty, both
	after       uint64        // skips the first messages with each peer and direction
	probability float64       // of the messages that remain
}

const (
	anyRank = -1
	// maxDelay keeps sums of durations from overflowing.
	maxDelay = 24 * time.Hour
)

// Inject combines the faults of all rules that apply to m.
func (f *Faults) Inject(m Message) Fault {
	var out Fault
	for i := range f.rules {
		r := &f.rules[i]
		u := f.drawNumbers(i, m)
		if !r.matches(m) || float64(rng.Unit(u[0])) >= r.probability {
			continue
		}
		switch r.action {
		case "delay":
			out.Delay += time.Duration(float64(r.delay) * float64(rng.Unit(u[1])))
		case "stall":
			out.Stall = true
		case "lose":
			out.Lose = true
		case "die":
			out.Die = true
		}
	}
	return out
}

func (f *Faults) drawNumbers(rule int, m Message) [4]uint32 {
	stream := uint32(rule) << 1
	if m.Sending {
		stream |= 1
	}
	return rng.Philox([2]uint32{uint32(f.seed), uint32(f.seed >> 32)},
		[4]uint32{uint32(m.Number), uint32(m.Rank), uint32(m.Peer), stream})
}

func (r *rule) matches(m Message) bool {
	direction := "recv"
	if m.Sending {
		direction = "send"
	}
	return (r.rank == anyRank || r.rank == m.Rank) && (r.peer == anyRank || r.peer == m.Peer) &&
		(r.direction == "" || r.direction == direction) && m.Number >= r.after
}

// ParseFaults parses rules, separated by semicolons:
//
//	delay(1ms)                            each message, by up to 1 ms
//	delay(1ms, p=0.1, send)               one send in ten
//	lose(rank=0, send, peer=2, after=100) rank 0 loses rank 2 at its send number 100 to it
//	stall(recv, rank=1, after=3)          rank 1 hangs in its fourth receive
//	die(rank=1, after=7)                  rank 1 closes its endpoint
func ParseFaults(seed uint64, spec string) (*Faults, error) {
	f := &Faults{seed: seed}
	for text := range strings.SplitSeq(spec, ";") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		r, err := parseRule(text)
		if err != nil {
			return nil, fmt.Errorf("fault rule %q: %w", text, err)
		}
		f.rules = append(f.rules, r)
	}
	return f, nil
}

func parseRule(text string) (rule, error) {
	r := rule{rank: anyRank, peer: anyRank, probability: 1}
	name, rest, ok := strings.Cut(text, "(")
	if !ok || !strings.HasSuffix(rest, ")") {
		return r, fmt.Errorf("want action(condition, ...)")
	}
	switch r.action = strings.TrimSpace(name); r.action {
	case "delay", "stall", "lose", "die":
	default:
		return r, fmt.Errorf("unknown action %q; the actions are delay, stall, lose and die", r.action)
	}
	for arg := range strings.SplitSeq(strings.TrimSuffix(rest, ")"), ",") {
		if arg = strings.TrimSpace(arg); arg == "" {
			continue
		}
		if err := r.parseArgument(arg); err != nil {
			return r, fmt.Errorf("%q: %w", arg, err)
		}
	}
	if (r.action == "delay") != (r.delay > 0) || r.delay > maxDelay {
		return r, fmt.Errorf("a delay, and no other action, takes a duration above 0 and up to %v", maxDelay)
	}
	return r, nil
}

func (r *rule) parseArgument(arg string) error {
	key, value, _ := strings.Cut(arg, "=")
	var err error
	switch key {
	case "send", "recv":
		r.direction = key
	case "rank":
		r.rank, err = parseRank(value)
	case "peer":
		r.peer, err = parseRank(value)
	case "after":
		r.after, err = strconv.ParseUint(value, 10, 64)
	case "p":
		r.probability, err = strconv.ParseFloat(value, 64)
		if err == nil && !(r.probability > 0 && r.probability <= 1) {
			err = fmt.Errorf("a probability must be above 0 and at most 1")
		}
	default:
		if r.delay, err = time.ParseDuration(arg); err != nil {
			err = fmt.Errorf("unknown condition; the conditions are send, recv, rank=R, peer=R, after=N and p=P")
		}
	}
	return err
}

func parseRank(value string) (int, error) {
	n, err := strconv.ParseUint(value, 10, 31)
	return int(n), err
}
