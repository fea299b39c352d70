package bench

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/tier"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// storeLaw is a popularity of ids.
type storeLaw struct {
	name   string
	points []sharePoint // nil: the synthetic stream's
	file   string       // with samples drawn by the points
}

// storeLaws returns the values of the setting skew.
func (o Options) storeLaws() (laws []storeLaw, err error) {
	for _, name := range strings.Split(o.text("skew"), ",") {
		law := storeLaw{name: name}
		if name != "synthetic" {
			parts := strings.Split(name, "/")
			if len(parts) != len(openEmbeddingShares) {
				return nil, settingError("skew=%s: want synthetic, or three shares in per cent such as 85.7/89.5/95.7", name)
			}
			before := 0.0
			for i, p := range parts {
				x, err := strconv.ParseFloat(p, 64)
				if err != nil || !(x > before && x < 100) {
					return nil, settingError("skew=%s: want shares between 0 and 100 %%, each greater than the one before", name)
				}
				law.points = append(law.points, sharePoint{openEmbeddingShares[i].rows, x / 100})
				before = x
			}
		}
		laws = append(laws, law)
	}
	return laws, nil
}

// writeSamples writes the samples of an epoch, with ids that a law draws. The ranks of rows are scattered over each table.
func (b *serversRun) writeSamples(law *storeLaw) (err error) {
	if law.points == nil {
		return nil
	}
	rows := int64(b.o.number("rows") / 26)
	draw := newShareLaw(law.points, float64(rows))
	law.file = filepath.Join(b.dir, strings.ReplaceAll(law.name, "/", "-")+".bin")
	f, err := os.Create(law.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out, random := bufio.NewWriterSize(f, 1<<20), rand.New(rand.NewPCG(oracleSeed, 1))
	step := scatterStep(rows)
	var record [160]byte
	for range b.o.number("batch") * b.o.number("steps") {
		binary.LittleEndian.PutUint32(record[:], random.Uint32()&1)
		for i := range 13 {
			binary.LittleEndian.PutUint32(record[4+4*i:], random.Uint32N(100))
		}
		for i := range 26 {
			rank := int64(draw.rank(random.Float64(), float64(rows)))
			binary.LittleEndian.PutUint32(record[4+4*13+4*i:], uint32(rank*step%rows))
		}
		if _, err := out.Write(record[:]); err != nil {
			return err
		}
	}
	return out.Flush()
}

// scatterStep returns a number that has no divisor in common with the rows, near their golden section.
func scatterStep(rows int64) int64 {
	step := max(1, int64(float64(rows)*0.618))
	for gcd(step, rows) != 1 {
		step++
	}
	return step
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// steps is the number of steps of an epoch.
func (b *serversRun) steps(trainers int) int { return b.o.number("steps") / trainers }

// isTier reports whether the rows are in store.tier and its logs.
func (j *storeJob) isTier() bool {
	return slices.Contains([]string{"tier", "no-cache", "no-pipeline", "neither"}, j.store)
}

// saveEvery is the number of steps between checkpoints, or between commits of tier.
func (b *serversRun) saveEvery(trainers int) int {
	if n := b.o.number("saves"); n > 0 {
		return max(1, b.steps(trainers)/n)
	}
	return b.o.number("every")
}

// settings returns the settings of a job.
func (b *serversRun) settings(j storeJob) (sets []string) {
	sets = []string{fmt.Sprint("ranks.trainers=", j.trainers), "ranks.servers=1", fmt.Sprint("train.iterations=", b.steps(j.trainers)),
		"train.keep=last", fmt.Sprint("ec.commit_every=", b.saveEvery(j.trainers))}
	if j.law.file != "" {
		sets = append(sets, "data.format=criteo-bin", fmt.Sprintf("data.train=[%q]", j.law.file), "data.shuffle=none")
	}
	if isAhead := j.store == "tier" || j.store == "no-cache"; !isAhead {
		sets = append(sets, "cache.mode=none")
	} else {
		sets = append(sets, "cache.mode=planned")
	}
	if j.store != "dram-ps" {
		sets = append(sets, "store.tier=file", "store.dram_bytes=1GiB")
	}
	if j.isTier() {
		return append(sets, "store.path="+filepath.Join(b.dir, "store"))
	}
	if b.o.number("saves") > 0 {
		sets = append(sets, "checkpoint.dir="+filepath.Join(b.dir, "saves"), "checkpoint.kind=incremental", "checkpoint.keep=1",
			fmt.Sprint("checkpoint.every=", b.saveEvery(j.trainers)))
	}
	return sets
}

// runStore runs one job.
func (b *serversRun) runStore(j storeJob) (x storeTimes, err error) {
	for _, dir := range []string{"store", "saves"} {
		if err := os.RemoveAll(filepath.Join(b.dir, dir)); err != nil {
			return x, err
		}
	}
	cfg, err := b.shape.config(job{batch: b.o.number("batch") * j.trainers, ranks: j.trainers + 1, threads: 1}, b.settings(j)...)
	if err != nil {
		return x, err
	}
	asked, most, err := b.countAsked(cfg.DataOptions(false), cfg.Model.TableRows(), j.trainers)
	if err != nil {
		return x, err
	}
	e, steps := env.Real(), b.steps(j.trainers)
	t := &savesTimer{halfTimer: halfTimer{half: int64(steps) / 2, meter: &train.Meter{}}}
	o := train.Options{Observer: t, Stop: b.o.isStopped, Meter: t.meter, PauseSaves: true,
		Progress:   func(data.Progress) error { return nil },
		WrapStream: func(rank int, s kernels.Stream) kernels.Stream { return waitIn(e, s, rank < j.trainers, b.compute) },
		World: &train.World{Processes: 1, Neighbours: 1, Join: func([]int) ([]transport.Endpoint, error) {
			eps := transport.NewMem(e, j.trainers+1, 1)
			for i := range eps {
				eps[i] = transport.EmulateLink(e, eps[i], b.link)
			}
			return eps, nil
		}}}
	rowBytes := 4 * b.shape.dim
	switch j.store {
	case "tier", "no-pipeline", "inline-lru":
		o.Frames = max(hashFrames, j.cache<<10/rowBytes)
	case "pmem-hash":
		o.Frames = hashFrames
	case "no-cache", "neither":
		o.Frames = max(hashFrames, most)
	}
	if j.store == "inline-lru" || j.store == "pmem-hash" {
		o.Below = func(_ int, h *shard.Shard) shard.Below { return newRowStore(e, b.dir, h) }
	}
	_, err = train.Run(e, cfg, o)
	if full := new(tier.CapacityError); errors.As(err, &full) {
		return storeTimes{needed: full.Needed}, nil
	}
	if err == nil && t.steps == 0 {
		err = errors.New("bench: the job trained too few steps")
	}
	if err != nil {
		return x, err
	}
	b.info = t.info
	n, saves := float64(t.steps), t.checkpoints
	if j.isTier() {
		saves = t.commits
	}
	seconds := t.last.sub(t.first.time)
	return storeTimes{epoch: seconds * float64(steps) / n, step: 1e3 * seconds / n, cpu: 1e3 * (t.last.cpu - t.first.cpu).Seconds() / n,
		misses: 100 * float64(t.last.read-t.first.read) / float64(asked), spilled: float64(t.last.spilled-t.first.spilled) / n,
		saves: float64(saves)}, t.err
}

// savesTimer also counts the checkpoints and commits of the second half.
type savesTimer struct {
	halfTimer
	checkpoints, commits int
}

func (t *savesTimer) isOn() bool { return !t.first.time.IsZero() && t.last == t.first }

func (t *savesTimer) Checkpointed(_ int64, _ string, err error) {
	if t.isOn() && err == nil {
		t.checkpoints++
	}
}

func (t *savesTimer) Committed(int64, string) {
	if t.isOn() {
		t.commits++
	}
}

// countAsked counts the rows that trainers request of the server in the steps of the second half, each distinct one once in each slice, and
// the most distinct rows of one step.
func (b *serversRun) countAsked(o data.Options, tables []int64, trainers int) (asked, most int, err error) {
	o.Env = env.Real()
	src, err := data.Open(o)
	if err != nil {
		return 0, 0, err
	}
	defer src.Close()
	order := data.Order{Samples: src.Len(), Batch: b.o.number("batch") * trainers}
	var batch data.Batch
	var keys, idx []int64
	for step := range int64(b.steps(trainers)) {
		var all []int64
		for part := range trainers {
			idx = order.Slice(step+1, part, trainers, idx)
			if err := src.Read(&batch, idx); err != nil {
				return 0, 0, err
			}
			keys = keys[:0]
			for i, id := range batch.IDs {
				keys = append(keys, int64(i%len(tables))<<32|int64(id))
			}
			slices.Sort(keys)
			keys = slices.Compact(keys)
			all = append(all, keys...)
			if step >= int64(b.steps(trainers))/2 {
				asked += len(keys)
			}
		}
		slices.Sort(all)
		most = max(most, len(slices.Compact(all)))
	}
	return max(1, asked), min(most, math.MaxInt32), nil
}
