package audit

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/event"
)

func commit(step int64, digest string) event.Event {
	return event.Event{Event: event.Commit, Step: step, Digest: digest}
}

func saved(step int64) event.Event {
	return event.Event{Event: event.Checkpoint, Step: step, Path: fmt.Sprint("ck/", step)}
}

var whole = []event.Event{{Event: event.Start}, commit(0, "a"), commit(10, "b"), saved(12), commit(20, "c"), saved(24),
	commit(30, "d"), commit(35, "e"), {Event: event.End, Step: 35, Digest: "e"}}

// TestRecordOf checks that a resumed run replaces the records of the steps that it repeats, and that a new run
// replaces all of them.
func TestRecordOf(t *testing.T) {
	r := RecordOf(whole)
	if r.Last() != 35 || len(r.Commits) != 5 || r.Checkpoints[24] != "ck/24" || r.End != 35 || r.EndDigest != "e" ||
		len(r.Twice) > 0 || r.First != 0 {
		t.Errorf("%+v", r)
	}
	r = RecordOf(append(whole[:len(whole):len(whole)], event.Event{Event: event.Resume, Step: 12}, commit(12, "x"), commit(20, "c2")))
	if r.Last() != 20 || len(r.Checkpoints) != 1 || r.EndDigest != "" || len(r.Twice) > 0 || r.Commits[20] != "c2" || r.Commits[10] != "b" {
		t.Errorf("after a resume: %+v", r)
	}
	r = RecordOf(append(whole[:len(whole):len(whole)], commit(20, "c"), commit(20, "other")))
	if !reflect.DeepEqual(r.Twice, []int64{20}) {
		t.Errorf("two digests of one commit: %v", r.Twice)
	}
	if r = RecordOf(append(whole[:len(whole):len(whole)], event.Event{Event: event.Start}, commit(0, "a"))); r.Last() != 0 {
		t.Errorf("after a new start: %+v", r)
	}
	if r = RecordOf([]event.Event{{Event: event.Resume, Step: 7}, commit(7, "a"), commit(10, "b")}); r.First != 7 || r.Last() != 10 {
		t.Errorf("a run that begins from a checkpoint: %+v", r)
	}
}

func TestPlanOf(t *testing.T) {
	first, second, third := Interval{0, 12, "", "ck/12"}, Interval{12, 24, "ck/12", "ck/24"}, Interval{24, 35, "ck/24", ""}
	elsewhere := append([]event.Event{{Event: event.Resume, Step: 7}}, whole[1:]...)
	for _, e := range []struct {
		events []event.Event
		want   Range
		plan   []Interval
		err    string
	}{
		{whole, Range{}, []Interval{first, second, third}, ""},
		{whole, Range{From: 12}, []Interval{second, third}, ""},
		{whole, Range{From: 23}, []Interval{second, third}, ""},
		{whole, Range{From: 24}, []Interval{third}, ""},
		{whole, Range{To: 24}, []Interval{first, second}, ""},
		{whole, Range{From: 12, To: 20}, []Interval{{12, 20, "ck/12", ""}}, ""},
		{whole, Range{To: 36}, nil, "--to 36: the last step that the run has recorded is 35"},
		{whole, Range{From: 35}, nil, "--from 35: give a step from 0 to 34"},
		{whole, Range{From: 12, To: 15}, nil, "--to 15: the run has recorded nothing between its checkpoint of step 12 and that step"},
		{whole[:2], Range{}, nil, "no commit and no checkpoint"},
		{[]event.Event{{Event: event.Start}, {Event: event.End, Step: 9, Digest: "z"}}, Range{}, []Interval{{0, 9, "", ""}}, ""},
		{elsewhere, Range{From: 12}, []Interval{second, third}, ""},
		{elsewhere, Range{}, nil, "--from 0: the run began after step 7"},
	} {
		plan, err := PlanOf(RecordOf(e.events), e.want)
		if !reflect.DeepEqual(plan, e.plan) || (err == nil) != (e.err == "") || err != nil && !strings.Contains(err.Error(), e.err) {
			t.Errorf("%+v: %+v, %v; want %+v, %q", e.want, plan, err, e.plan, e.err)
		}
	}
	if v, ok := RecordOf(whole).Before(24); !ok || v != second {
		t.Errorf("before 24: %+v, %v", v, ok)
	}
	if v, ok := RecordOf(whole).Before(12); !ok || v != first {
		t.Errorf("before 12: %+v, %v", v, ok)
	}
	if v, ok := RecordOf(elsewhere).Before(12); ok {
		t.Errorf("before 12, of a run that began from a checkpoint elsewhere: %+v", v)
	}
}

// TestSample draws intervals, and checks that they are of the plan, in order, the same for one seed, and
// not always the same.
func TestSample(t *testing.T) {
	events := []event.Event{{Event: event.Start}}
	for step := int64(10); step <= 200; step += 10 {
		events = append(events, saved(step))
	}
	r, drawn := RecordOf(events), map[int64]bool{}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for range 50 {
		n := 1 + int(rand.New(rand.NewPCG(seed, 1)).IntN(20))
		plan, err := PlanOf(r, Range{Sample: n, Seed: seed})
		again, _ := PlanOf(r, Range{Sample: n, Seed: seed})
		if err != nil || len(plan) != n || !reflect.DeepEqual(plan, again) {
			t.Fatalf("seed %d: %d of %d, %v", seed, len(plan), n, err)
		}
		for i, v := range plan {
			if v.Steps() != 10 || i > 0 && v.From <= plan[i-1].From {
				t.Fatalf("seed %d: %+v", seed, plan)
			}
		}
		drawn[plan[0].From] = true
		seed++
	}
	if len(drawn) < 3 {
		t.Errorf("50 samples began with %v", drawn)
	}
}

func TestCompareDigests(t *testing.T) {
	run := RecordOf(whole)
	first, third := Interval{0, 12, "", "ck/12"}, Interval{24, 35, "ck/24", ""}
	for _, e := range []struct {
		v    Interval
		here []event.Event
		want Verdict
	}{
		{first, []event.Event{{Event: event.Start}, commit(10, "b")}, Verdict{Equal: 1}},
		{first, []event.Event{{Event: event.Start}, commit(5, "x")}, Verdict{Skipped: 1}},
		{first, []event.Event{{Event: event.Start}, commit(10, "x")}, Verdict{Difference: &Difference{0, 10, "b", "x"}}},
		{third, []event.Event{{Event: event.Resume, Step: 24}, commit(30, "d"), commit(35, "e")}, Verdict{Equal: 2}},
		{third, []event.Event{{Event: event.Resume, Step: 24}, commit(30, "d"), {Event: event.End, Step: 35, Digest: "x"}},
			Verdict{Equal: 1, Difference: &Difference{30, 35, "e", "x"}}},
	} {
		if x := CompareDigests(run, e.v, RecordOf(e.here)); !reflect.DeepEqual(x, e.want) {
			t.Errorf("%+v: %+v %+v; want %+v %+v", e.v, x, x.Difference, e.want, e.want.Difference)
		}
	}
}
