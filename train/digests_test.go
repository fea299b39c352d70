package train

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
)

// commitLog keeps the digest of each commit that the Observer receives.
type commitLog struct {
	*killer
	t       *testing.T
	digests map[int64]string
}

func newCommitLog(t *testing.T, kills ...kill) *commitLog {
	return &commitLog{killer: &killer{spare: 1, dead: map[int]uint64{}, kills: kills}, t: t, digests: map[int64]string{}}
}

func (l *commitLog) Committed(step int64, digest string) {
	if before := l.digests[step]; before != "" && before != digest {
		l.t.Errorf("step %d is committed with digest %s and then with %s", step, before, digest)
	}
	l.digests[step] = digest
}

// digestSteps are the commits of a run of 23 steps with commits every 5.
var digestSteps = []int64{0, 5, 10, 15, 20, 23}

// Each commit has the digest of the whole model: that of a run which ends there. It depends
// neither on the exchange of rows, nor on a code, nor on losses.
func TestDigestOfEveryCommit(t *testing.T) {
	base := []string{"job.digests=true", "job.ranks=6", "ec.commit_every=5", "train.iterations=23"}
	want := map[int64]string{}
	for _, step := range digestSteps[1:] {
		want[step] = run(t, Options{}, adagrad, "job.ranks=6", fmt.Sprint("train.iterations=", step)).Digest
	}
	coded := []string{"ec.code=rs", "ec.k=2", "ec.r=1"}
	for name, c := range map[string]struct {
		sets  []string
		kills []kill
		other bool // trainers, so the digests are not those of the other cases
	}{
		"without a code": {},
		"lrpp":           {sets: []string{"cache.mode=lrpp"}},
		"every step":     {sets: []string{"ec.commit_every=1"}},
		"servers":        {sets: slices.Concat(coded, []string{"ranks.servers=3", "ranks.trainers=3"}), kills: []kill{{4, 12, probe.Status}}, other: true},
		"coded":          {sets: coded},
		"a loss":         {sets: coded, kills: []kill{{4, 12, probe.Status}}},
		"the first rank": {sets: coded, kills: []kill{{0, 12, probe.Commit}}},
		"two groups":     {sets: coded, kills: []kill{{1, 12, probe.Status}, {4, 12, probe.Status}}},
		"two losses":     {sets: coded, kills: []kill{{1, 8, probe.Status}, {2, 17, probe.Status}}},
		"at the end":     {sets: coded, kills: []kill{{3, 23, probe.Settle}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newCommitLog(t, c.kills...)
			o := Options{Observer: l, Check: true}
			if c.kills != nil {
				o.World, o.Inject = lasting(6, l.killer), l.killer.inject
			}
			got := run(t, o, adagrad, slices.Concat(base, c.sets)...)
			if l.digests[23] != got.Digest {
				t.Errorf("the last commit has the digest %s, the model %s", l.digests[23], got.Digest)
			}
			for step, want := range want {
				if l.digests[step] == "" || l.digests[step] != want && !c.other {
					t.Errorf("step %d: digest %q, want %s", step, l.digests[step], want)
				}
			}
			if l.digests[0] == "" {
				t.Error("the digest of the first model is missing")
			}
		})
	}
}

// rowSpy is a stream that remembers the rows that it updated last.
type rowSpy struct {
	kernels.Stream
	row *kernels.Matrix
}

func (s rowSpy) UpdateRows(rule kernels.RowRule, rows kernels.Matrix, slots kernels.Buffer, grads kernels.Matrix, start, pos kernels.Buffer) {
	s.Stream.UpdateRows(rule, rows, slots, grads, start, pos)
	slot := int(binary.LittleEndian.Uint32(slots.Host()))
	*s.row = rows.RowRange(slot, 1)
}

// A bit of a row that changes without an update ends the job with an error.
func TestChangedBytesAreFound(t *testing.T) {
	cfg, err := config.Load(adagrad, []string{"job.out=" + t.TempDir(), "job.digests=true", "train.iterations=12"})
	if err != nil {
		t.Fatal(err)
	}
	var row kernels.Matrix
	o := Options{Observer: &quiet{}, Stop: func() bool { return false },
		WrapStream: func(_ int, s kernels.Stream) kernels.Stream { return rowSpy{s, &row} },
		Inject: func(_ int, step int64, at probe.Point) error {
			if at == probe.Digest {
				row.Buf.Host()[0] ^= 1
			}
			return nil
		}}
	_, err = Run(env.Real(), cfg, o)
	if err == nil || !strings.Contains(err.Error(), "without an update") {
		t.Errorf("error %v, want one that says that bytes have changed without an update", err)
	}
}

// TestUntil ends runs early, and checks that each has the model that a run of full length has then, whose
// learning rates fall until its last step.
func TestUntil(t *testing.T) {
	sets := []string{"job.digests=true", "job.ranks=2", "ec.commit_every=5", "train.iterations=23", "optimizer.dense.decay_start=2",
		"optimizer.dense.decay_steps=21"}
	l := newCommitLog(t)
	all := run(t, Options{Observer: l}, adagrad, sets...)
	for _, mode := range []string{"none", "lrpp"} {
		for _, until := range []int64{10, 15, 23, 99} {
			got := run(t, Options{Until: until}, adagrad, append(sets, "cache.mode="+mode)...)
			if last := min(until, 23); got.Steps != last || got.Digest != l.digests[last] || got.Stopped ||
				!slices.Equal(got.TrainLoss, all.TrainLoss[:last]) {
				t.Errorf("%s, until step %d: %d steps, digest %s; want %s", mode, until, got.Steps, got.Digest, l.digests[last])
			}
		}
	}
}

// Ranks that are new to a job have no digest of rows, except that the first of them has that of all lost rows. Also a rank that had begun
// with rows is new, if its first world ended before it trained.
func TestDigestsOfNewRanks(t *testing.T) {
	lost := digest.Sum{Lo: 7}
	for id, want := range []digest.Sum{{Lo: 5}, lost, {}} {
		j := &job{topology: topology{ranks: 3, roles: roles{trainers: 3, rows: 3}}}
		p := &protection{rank: &rank{job: j, id: id}}
		p.digests.rows = commit.NewDigests()
		p.digests.begin(40, digest.Sum{Lo: 5})
		p.digests.rows.Begin(40, false)
		p.restoreDigests(40, []bool{false, true, true}, lost)
		if got := p.digests.rows.At(40); got != want {
			t.Errorf("rank %d: %v, want %v", id, got, want)
		}
	}
}
