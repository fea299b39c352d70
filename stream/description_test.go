package stream

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lineage"
)

// aboutOf returns the frames of a description.
func aboutOf(run byte, session uint64, text string) [][]byte {
	f := listed(header{lineage: lineage.ID{run}, ranks: 1, session: session})
	f.addAbout([]byte(text))
	return f.all()
}

// TestDescriptions mixes the frames of several writers: each epoch has the description that its own writer sent. A reader that restarts
// between a description and the end of its first epoch reads it again.
func TestDescriptions(t *testing.T) {
	large := strings.Repeat("b", MaxPayload+1)
	fork, late, other := epochOf(2, 6, 0, 12), epochOf(1, 5, 10, 20), aboutOf(2, 6, large)
	list := slices.Concat(aboutOf(1, 5, "a"), epochOf(1, 5, 0, 10),
		other[:1], aboutOf(1, 7, "c"), other[1:], fork[:2], late, fork[2:], epochOf(2, 6, 12, 15))
	all := takeFrames(t, NewChain(0, Start(0)), list)
	want := []string{"a", "a", large, large}
	if len(all) != len(want) {
		t.Fatalf("%d epochs", len(all))
	}
	for i, e := range all {
		if string(e.About) != want[i] {
			t.Errorf("the epoch of step %d has the description %.3q, want %.3q", e.To, e.About, want[i])
		}
		rest := takeFrames(t, NewChain(0, Position{e.Lineage, e.To, e.Next}), list)
		for k, x := range all[i+1:] {
			if len(rest) <= k || rest[k].To != x.To || x.Lineage != e.Lineage && string(rest[k].About) != string(x.About) {
				t.Errorf("a reader that restarts after step %d lacks the epoch of step %d, or its description", e.To, x.To)
			}
		}
	}
}

// TestDeadDescription: a description whose writer is gone does not keep the position for ever.
func TestDeadDescription(t *testing.T) {
	list := slices.Concat(aboutOf(1, 5, "a"), epochOf(1, 5, 0, 1), aboutOf(2, 6, "b"))
	first := int64(len(list) - 1)
	for step := range int64(2 * mostIdle) {
		list = append(list, epochOf(1, 5, step+1, step+2)...)
	}
	c := NewChain(0, Start(0))
	for _, e := range takeFrames(t, c, list) {
		if held := e.Next == first; held != (e.To < mostIdle+2) {
			t.Errorf("after step %d a reader that restarts begins with offset %d", e.To, e.Next)
		}
	}
	if len(c.abouts) != 1 {
		t.Errorf("%d descriptions are kept", len(c.abouts))
	}
}

// TestMergedDescription: epochs that are merged keep the description of the first, if the next has none.
func TestMergedDescription(t *testing.T) {
	e := &Epoch{Lineage: lineage.ID{1}, Absolute: true, To: 1, About: []byte("a")}
	for _, next := range []*Epoch{{Lineage: lineage.ID{1}, From: 1, To: 2}, {Lineage: lineage.ID{1}, Absolute: true, To: 2}} {
		if m := e.merge(next); string(m.About) != "a" || m.To != 2 || !m.Absolute {
			t.Errorf("%+v", m)
		}
	}
	if m := e.merge(&Epoch{Lineage: lineage.ID{2}, Absolute: true, To: 2}); len(m.About) > 0 {
		t.Errorf("a fork has the description %s", m.About)
	}
}

// TestAddedPartitions: a topic with more partitions than ranks write to is refused, since no model would ever be complete.
func TestAddedPartitions(t *testing.T) {
	topic := NewMemory(env.Real())
	must(t, topic.Create(1))
	p, err := topic.Open(0)
	must(t, err)
	must(t, p.Append(epochOf(1, 5, 0, 1)))
	must(t, p.Sync())
	must(t, topic.Create(2))
	r, err := OpenReader(ReaderOptions{Env: env.Real(), Topic: topic})
	must(t, err)
	defer r.Close()
	for began := time.Now(); err == nil && time.Since(began) < time.Minute; {
		_, err = r.Next(time.Second)
	}
	if err == nil || !strings.Contains(err.Error(), "the run has 1 ranks, and the topic 2 partitions") {
		t.Error(err)
	}
}
