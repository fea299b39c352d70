package stream

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lineage"
)

// records are a partition that lists what is appended.
type records struct{ list [][]byte }

func (r *records) Append(list [][]byte) error {
	for _, b := range list {
		r.list = append(r.list, bytes.Clone(b))
	}
	return nil
}

// listedFrames are frames that are listed.
type listedFrames struct {
	frames
	records *records
}

func listed(h header) *listedFrames {
	r := &records{}
	return &listedFrames{frames{h: h, to: &batch{partition: r}}, r}
}

// all are the frames so far.
func (f *listedFrames) all() [][]byte {
	_ = f.to.end() // records takes all
	return f.records.list
}

func frameOf(h header, payload []byte) []byte {
	f := listed(h)
	f.addFrame(h.kind, payload)
	return f.all()[0]
}

// TestLargeEpochs: an epoch that takes many frames arrives as it was written.
func TestLargeEpochs(t *testing.T) {
	const n, rowBytes = 40_000, 64
	slots, rows := make([]int32, n), make([]byte, n*rowBytes)
	for i := range slots {
		slots[i] = int32(3*i + i%2)
	}
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(rows)
	f := listed(header{ranks: 1, to: 5, absolute: true})
	f.addRows(slots, rows)
	extra := bytes.Repeat([]byte("dense"), MaxPayload)
	f.addEnd(extra)
	c := NewChain(0, Start(0))
	var got *Epoch
	for i, b := range f.all() {
		if len(b) > MaxPayload+headerBytes {
			t.Errorf("frame %d has %d bytes", i, len(b))
		}
		e, err := c.Take(Record{Offset: int64(i), Bytes: b})
		must(t, err)
		got = e
	}
	if got == nil || !slices.Equal(got.Slots, slots) || !bytes.Equal(got.Rows, rows) || !bytes.Equal(got.Extra, extra) {
		t.Error("the epoch differs")
	}
}

// TestGaps: each frame that is missing is noticed, at the latest by the next epoch, and no wrong model is made.
func TestGaps(t *testing.T) {
	topic := NewMemory(env.Real())
	must(t, topic.Create(1))
	w := &writer{t: t, rnd: rand.New(rand.NewPCG(1, 1)), at: map[int64]map[int32]uint64{0: {}}}
	w.open(topic, 1, lineage.Run{Lineage: lineage.ID{1}}, 0)
	for step := int64(2); step <= 8; step += 2 {
		w.append(step, w.train(step-2, step))
	}
	records := slices.Clone(topic.parts[0].records)
	for missing := 1; missing+4 < len(records); missing++ { // record 0 describes the run
		c, held := NewChain(0, Start(0)), int64(-1)
		err := error(nil)
		for i, r := range records {
			var e *Epoch
			if i == missing {
				continue
			}
			if e, err = c.Take(r); err != nil {
				break
			}
			if e != nil {
				held = e.To
			}
		}
		var gap *Gap
		var foreign *Foreign
		if !errors.As(err, &gap) && !errors.As(err, &foreign) {
			t.Errorf("without record %d: %v", missing, err)
		} else if gap != nil && gap.Held != held {
			t.Errorf("without record %d the gap is after step %d, the reader holds %d", missing, gap.Held, held)
		}
	}
}

// TestLargeDescription: a description that takes several frames arrives, also if its writer began twice.
func TestLargeDescription(t *testing.T) {
	text := bytes.Repeat([]byte("vocabulary "), MaxPayload/4)
	topic := NewMemory(env.Real())
	must(t, topic.Create(1))
	l, err := OpenLog(LogOptions{Env: env.Real(), Topic: topic, Ranks: 1, Run: func() lineage.Run { return lineage.Run{Lineage: lineage.ID{1}} },
		About: func() ([]byte, error) { return text, nil }})
	must(t, err)
	for _, step := range []int64{2, 3} {
		must(t, l.CutTo(0))
		must(t, l.Append(step, nil, nil, nil))
	}
	must(t, l.Sync())
	c, n := NewChain(0, Start(0)), 0
	records := topic.parts[0].records
	for _, r := range append(slices.Clone(records[:2]), records...) { // the first two are there twice
		if len(r.Bytes) > MaxPayload+headerBytes {
			t.Errorf("a frame of %d bytes", len(r.Bytes))
		}
		e, err := c.Take(r)
		must(t, err)
		if e != nil {
			n++
			if !bytes.Equal(e.About, text) {
				t.Errorf("epoch %d has a description of %d bytes, not %d", n, len(e.About), len(text))
			}
		}
	}
	if n != 2 {
		t.Errorf("%d epochs", n)
	}
}

// TestDamage: a bit that is flipped in a frame is found by its sum, wherever it is.
func TestDamage(t *testing.T) {
	f := listed(header{ranks: 1, to: 5, absolute: true})
	f.addRows([]int32{3, 9}, bytes.Repeat([]byte{7}, 24))
	for at := range 8 * len(f.all()[0]) {
		b := bytes.Clone(f.all()[0])
		b[at/8] ^= 1 << (at % 8)
		if _, _, err := parseFrame(b); err == nil {
			t.Errorf("bit %d is not noticed", at)
		}
	}
}

// TestOldWriter: frames of a writer that was replaced arrive between those of its successor. No epoch is made of both, and none is
// missing. After a fork those of the run before it are dropped.
func TestOldWriter(t *testing.T) {
	a, b, old := epochOf(1, 5, 0, 2), epochOf(1, 6, 2, 4), epochOf(1, 5, 2, 3)
	fork := epochOf(2, 7, 0, 3)
	c := NewChain(0, Start(0))
	steps := []int64{}
	order := [][]byte{a[0], a[1], a[2], b[0], old[0], b[1], old[1], b[2], old[2], fork[0], epochOf(1, 5, 4, 6)[0], fork[1], fork[2], old[0], epochOf(1, 5, 4, 6)[0]}
	for i, b := range order {
		e, err := c.Take(Record{Offset: int64(i), Bytes: b})
		must(t, err)
		if e == nil {
			continue
		}
		steps = append(steps, e.To)
		if !slices.Equal(e.Slots, []int32{1, 5}) || e.Rows[0] != byte(e.To) || e.Rows[4] != byte(e.To) {
			t.Errorf("the epoch of step %d has slots %v, rows %v", e.To, e.Slots, e.Rows)
		}
	}
	if !slices.Equal(steps, []int64{2, 4, 3}) {
		t.Errorf("steps %v", steps)
	}
	if _, err := c.Take(Record{Offset: 99, Bytes: epochOf(2, 7, 3, 5)[1]}); !errors.As(err, new(*Gap)) {
		t.Errorf("a frame is missing: %v", err)
	}
}

// TestForeignTopics: a topic of another run, of another number of ranks or with other records is refused.
func TestForeignTopics(t *testing.T) {
	topic := NewMemory(env.Real())
	must(t, topic.Create(1))
	w := &writer{t: t, rnd: rand.New(rand.NewPCG(1, 1)), at: map[int64]map[int32]uint64{0: {}}}
	w.open(topic, 1, lineage.Run{Lineage: lineage.ID{1}}, 0)
	w.append(2, w.train(0, 2))
	for _, x := range []struct {
		ranks  int
		id     lineage.ID
		owners []int
		want   string
	}{{1, lineage.ID{2}, nil, "another run"}, {2, lineage.ID{1}, nil, "1 partitions"}, {1, lineage.ID{1}, nil, ""},
		{1, lineage.ID{1}, []int{0}, "other numbers of trainers, servers and readers"}} {
		l, err := OpenLog(LogOptions{Env: env.Real(), Topic: topic, Ranks: x.ranks, Owners: x.owners,
			Run: func() lineage.Run { return lineage.Run{Lineage: x.id} }})
		if err == nil {
			err = l.CutTo(0)
			l.Close()
		}
		if (x.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%d ranks, lineage %v: %v", x.ranks, x.id, err)
		}
	}
	topic.Change(0, func(r []Record) []Record { return append(r, Record{Offset: int64(len(r)), Bytes: []byte("{}")}) })
	if _, err := OpenLog(LogOptions{Env: env.Real(), Topic: topic, Ranks: 1}); !errors.Is(err, errForeign) {
		t.Errorf("a foreign record: %v", err)
	}
}

// FuzzFrame: no record breaks a reader.
func FuzzFrame(f *testing.F) {
	x := listed(header{ranks: 1, to: 5, absolute: true})
	x.addRows([]int32{3, 9}, bytes.Repeat([]byte{7}, 24))
	x.addEnd([]byte("extra"))
	for _, b := range x.all() {
		f.Add(b, b[headerBytes:])
	}
	f.Fuzz(func(t *testing.T, b, payload []byte) {
		c := NewChain(0, Start(0))
		_, _ = c.Take(Record{Bytes: b})
		for k := kindRows; k <= kindAbout; k++ { // with a right sum
			h := header{kind: k, ranks: 1, to: 5, absolute: true}
			_, _ = c.Take(Record{Bytes: frameOf(h, payload)})
		}
		slots, rows, err := parseRows(payload, nil, nil)
		if err == nil && !bytes.Equal(payload, appendRows(nil, slots, rows)) && len(rows) > 0 {
			again, more, err := parseRows(appendRows(nil, slots, rows), nil, nil)
			if err != nil || !slices.Equal(again, slots) || !bytes.Equal(more, rows) {
				t.Errorf("%d slots and %d bytes are not read back", len(slots), len(rows))
			}
		}
	})
}
