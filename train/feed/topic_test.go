package feed

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/env/virtual"
	"github.com/ecrec/ecrec/stream"
)

// fakePart is a partition whose reads get nothing at some times. It is a topic of one partition too.
type fakePart struct {
	stream.Topic
	stream.Partition
	env     env.Env
	rows    []string
	late    func() bool // reads get nothing now, though there are messages; nil: never
	hole    int64       // offsets behind the last message
	listing func() error
	reads   int
}

func (p *fakePart) Open(int) (stream.Partition, error) { return p, nil }
func (p *fakePart) Close()                             {}

func (p *fakePart) Bounds() (first, next int64, err error) {
	if p.listing != nil {
		err = p.listing()
	}
	return 0, int64(len(p.rows)) + p.hole, err
}

func (p *fakePart) Read(from int64, _ int, wait time.Duration) (list []stream.Record, err error) {
	p.reads++
	if p.late != nil && p.late() || from >= int64(len(p.rows)) {
		p.env.Sleep(wait)
		return nil, nil
	}
	for i := from; i < int64(len(p.rows)); i++ {
		list = append(list, stream.Record{Offset: i, Bytes: []byte(p.rows[i])})
	}
	return list, nil
}

// openFake returns the intake of a partition, in virtual time, and a parser.
func openFake(t *testing.T, e env.Env, p *fakePart, x Topic) (*intake, *data.MessageParser) {
	t.Helper()
	p.env = e
	m, err := data.NewMessages(&data.Options{Env: e, Format: data.FormatKafka, Files: []string{"file:t"}, Tables: []int64{9},
		CSV: data.CSV{Label: "y", Categorical: []string{"c"}}})
	if err != nil {
		t.Fatal(err)
	}
	parser, err := m.NewParser()
	if err != nil {
		t.Fatal(err)
	}
	x.Name, x.Messages, x.From, x.Open = "file:t", m, Position{Next: []int64{0}}, func() (stream.Topic, error) { return p, nil }
	in, err := x.openIntake(e, func() bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	return in, parser
}

// TestIdleOfUnread: a run does not end by data.kafka.idle while its topic has messages that it has not read, as when a new leader is elected.
func TestIdleOfUnread(t *testing.T) {
	const idle, rows = 10 * time.Second, 100
	for name, c := range map[string]struct {
		late    func(now time.Duration) bool
		listing func(now time.Duration) error
		hole    int64
		blocked time.Duration // the reader, after the first sample
		ends    time.Duration // not before
	}{
		"at its end":           {ends: idle},
		"no answer at first":   {late: func(now time.Duration) bool { return now < 2*idle }, ends: 3 * idle},
		"a reader that waited": {late: func(now time.Duration) bool { return now > time.Second && now < time.Hour+idle }, blocked: time.Hour, ends: time.Hour},
		"no offsets at first": {listing: func(now time.Duration) error {
			if now < 5*idle {
				return errors.New("no leader")
			}
			return nil
		}, ends: 5 * idle},
		"a compacted end": {hole: 3, ends: retryFor},
	} {
		var n int
		var ended time.Duration
		if err := virtual.Run(1, func(e env.Env) error {
			p := &fakePart{hole: c.hole, rows: make([]string, rows)}
			for i := range p.rows {
				p.rows[i] = "1,c"
			}
			if c.late != nil {
				p.late = func() bool { return c.late(e.Now()) }
			}
			if c.listing != nil {
				p.listing = func() error { return c.listing(e.Now()) }
			}
			x, parser := openFake(t, e, p, Topic{Idle: idle})
			if c.blocked > 0 { // the partition has one message at first
				p.rows = p.rows[:1]
			}
			for {
				more, end, err := x.takeBatch(parser, 1)
				if n += more; err != nil || end != endNone {
					ended = e.Now()
					return err
				}
				if n == 1 && c.blocked > 0 {
					e.Sleep(c.blocked)
					p.rows = p.rows[:rows]
				}
			}
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n != rows || ended < c.ends || ended > c.ends+2*idle {
			t.Errorf("%s: the run ends after %v with %d samples, want %d, after %v", name, ended, n, rows, c.ends)
		}
	}
}

// TestIdleOfUnlisted: a run whose broker does not report where a partition ends fails after some time.
func TestIdleOfUnlisted(t *testing.T) {
	var ended time.Duration
	err := virtual.Run(1, func(e env.Env) error {
		p := &fakePart{rows: []string{"1,c"}, listing: func() error { e.Sleep(15 * time.Second); return errors.New("no leader") }}
		x, parser := openFake(t, e, p, Topic{Idle: time.Second})
		if _, _, err := x.takeBatch(parser, 1); err != nil {
			return err
		}
		_, _, err := x.takeBatch(parser, 1)
		ended = e.Now()
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "no leader") || ended > retryFor+time.Minute {
		t.Errorf("after %v: %v", ended, err)
	}
}

// TestIdleOfLost: a topic that has lost messages is not at its end.
func TestIdleOfLost(t *testing.T) {
	err := virtual.Run(1, func(e env.Env) error {
		p := &fakePart{rows: []string{"1,c", "0,d"}}
		x, parser := openFake(t, e, p, Topic{Idle: time.Second})
		if _, _, err := x.takeBatch(parser, 2); err != nil {
			return err
		}
		p.rows = p.rows[:1]
		_, _, err := x.takeBatch(parser, 1)
		return err
	})
	if !errors.Is(err, data.ErrInput) || !strings.Contains(err.Error(), "records before offset 2 are lost") {
		t.Errorf("the run ends with %v", err)
	}
}

// TestStopAmongMalformed: a run that is stopped while its topic has malformed messages alone ends, and reports that it waits for a sample.
func TestStopAmongMalformed(t *testing.T) {
	const stopAfter = 20
	var notices []string
	err := virtual.Run(1, func(e env.Env) error {
		p := &fakePart{}
		endless := func() bool { // each read takes a second, and gets one message more
			e.Sleep(time.Second)
			p.rows = append(p.rows, "no row")
			return false
		}
		p.late = endless
		x, parser := openFake(t, e, p, Topic{SkipBad: true, Stop: func() bool { return p.reads >= stopAfter }})
		x.notice = func(text string) { notices = append(notices, text) }
		x.interrupted = func() bool { return p.reads > 2*stopAfter }
		_, end, err := x.takeBatch(parser, 1)
		if end != endStopped || p.reads != stopAfter || x.skipped != stopAfter {
			t.Errorf("it ends with %d after %d reads and %d malformed messages", end, p.reads, x.skipped)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if len(notices) != 1 || !strings.Contains(notices[0], "messages of partition 0 up to offset 9 have none; 10 malformed ones") {
		t.Errorf("notices %q", notices)
	}
}
