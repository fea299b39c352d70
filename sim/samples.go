package sim

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
)

// samples is the topic that a run trains from. It has the samples of the file, in the order of the file, with holes between
// offsets. They appear while the job runs, and reads may fail.
type samples struct {
	partitions [][]sampleRecord
	draw       *rand.Rand
	faulty     int // one read of this number fails; 0: none does
}

// sampleRecord is a message, and when it appears.
type sampleRecord struct {
	stream.Record
	at time.Duration
}

// samplesSalt leaves the seeds that notice a mutation in mutation_test.go without a topic, as they were drawn before there were topics.
const samplesSalt = 2730

// setValue is the value that a list of sets gives a key, empty if it gives none.
func setValue(sets []string, key string) string {
	i := slices.IndexFunc(sets, func(set string) bool { return strings.HasPrefix(set, key+"=") })
	if i < 0 {
		return ""
	}
	return sets[i][len(key)+1:]
}

// drawInput draws whether a run reads its samples from a topic: one that ends before its data does, in the order of the file
// and without evaluations. The reference reads the file.
func (s *setting) drawInput(d *Data, seed uint64) {
	r := rand.New(rand.NewPCG(seed, purposeSamples+samplesSalt<<40))
	batch, _ := strconv.Atoi(setValue(s.exact, "train.global_batch"))
	steps, _ := strconv.Atoi(setValue(s.exact, "train.iterations"))
	if setValue(d.sets, "data.format") != "" { // samples of another kind
		return
	}
	if r.IntN(2) == 0 || steps*batch > trainSamples || setValue(s.exact, "train.eval_every") != "0" {
		return
	}
	s.samples = true
	s.exact = slices.DeleteFunc(s.exact, func(set string) bool { return strings.HasPrefix(set, "data.shuffle=") })
	s.exact = append(s.exact, "data.shuffle=none", "data.eval=[]")
}

// inputSets are the config values of a run that reads a topic.
func (s *setting) inputSets() []string {
	if !s.samples {
		return nil
	}
	return []string{"data.format=kafka", `data.train=["file:samples"]`, "data.kafka.at_end=" + config.AtEndWait}
}

// newSamples writes the samples of a file to a topic.
func newSamples(d *Data, set *setting, seed uint64) (*samples, error) {
	r := rand.New(rand.NewPCG(seed, purposeSamples+1<<32))
	x := &samples{partitions: make([][]sampleRecord, 1+r.IntN(4)), draw: r, faulty: []int{0, 5, 50}[r.IntN(3)]}
	text, err := os.ReadFile(d.filePath("train", set.tables) + ".csv")
	if err != nil {
		return nil, err
	}
	pause := time.Duration(r.Int64N(int64(20 * time.Millisecond)))
	next, holes := make([]int64, len(x.partitions)), 1+r.Int64N(4)
	for i, line := range bytes.Split(bytes.TrimSpace(text), []byte{'\n'})[1:] {
		p := i % len(next)
		next[p] += r.Int64N(holes)
		at := time.Duration(r.Int64N(int64(pause)*int64(i+1) + 1))
		x.partitions[p] = append(x.partitions[p], sampleRecord{stream.Record{Offset: next[p], Bytes: line}, at})
		next[p]++
	}
	for _, list := range x.partitions { // messages appear in the order of their offsets
		for i := range list[1:] {
			list[i+1].at = max(list[i+1].at, list[i].at)
		}
	}
	return x, nil
}

// openSamples is a process's Options.Samples.
func (p *process) openSamples(env.Env, string) (stream.Topic, error) {
	return samplesView{p.c.samples, p}, nil
}

// samplesView is the topic in use by a process.
type samplesView struct {
	*samples
	p *process
}

func (v samplesView) Name() string             { return "samples" }
func (v samplesView) Close()                   {}
func (v samplesView) Partitions() (int, error) { return len(v.partitions), nil }
func (v samplesView) Create(int) error         { panic("sim: nothing makes the topic of samples") }
func (v samplesView) Keeps() error             { return nil }
func (v samplesView) Base() stream.Topic       { panic("sim: samples have no bases") }

func (v samplesView) Open(partition int) (stream.Partition, error) {
	return &samplesPartition{v, partition}, nil
}

// samplesPartition is a partition in use.
type samplesPartition struct {
	samplesView
	number int
}

func (v *samplesPartition) Bounds() (first, next int64, err error) {
	for _, r := range v.partitions[v.number] {
		if r.at <= v.p.Now() {
			next = r.Offset + 1
		}
	}
	return 0, next, nil
}

// Read returns up to some messages, the first of them maybe again.
func (v *samplesPartition) Read(from int64, _ int, wait time.Duration) (list []stream.Record, err error) {
	if v.p.Dead {
		return nil, errDead
	}
	v.p.Sleep(time.Duration(v.draw.Int64N(int64(time.Millisecond))))
	if v.faulty > 0 && v.draw.IntN(v.faulty) == 0 {
		return nil, errBroker
	}
	all := v.partitions[v.number]
	i := slices.IndexFunc(all, func(r sampleRecord) bool { return r.Offset >= from })
	if i < 0 {
		v.p.Sleep(wait)
		return nil, nil
	}
	if early := all[i].at - v.p.Now(); early > 0 {
		v.p.Sleep(min(early, wait))
	}
	for i -= v.draw.IntN(min(i, 2) + 1); i < len(all) && all[i].at <= v.p.Now() && len(list) < 1+v.draw.IntN(40); i++ {
		list = append(list, all[i].Record)
	}
	return list, nil
}

func (v *samplesPartition) Append([][]byte) error { panic("sim: nothing writes samples") }
func (v *samplesPartition) Sync() error           { return nil }
func (v *samplesPartition) Trim(int64) error      { return nil }
func (v *samplesPartition) Close()                {}
