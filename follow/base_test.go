package follow

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
)

// TestTrim: a follower writes a base and trims the topic behind it, and continues from its folder. Another one begins with the
// base, and makes the same checkpoints.
func TestTrim(t *testing.T) {
	topic, saved, dir := stream.NewMemory(env.Real()), t.TempDir(), t.TempDir()
	trainTo(t, topic, saved, "20")
	must(t, follow(t, topic, dir, 20, func(o *Options) { o.Trim, o.Every = true, time.Hour }))
	p, err := topic.Open(1)
	must(t, err)
	if first, next, _ := p.Bounds(); first == 0 || first > next {
		t.Errorf("records %d to %d are left", first, next)
	}
	trainTo(t, topic, saved, "30")
	other := filepath.Join(t.TempDir(), "copy")
	must(t, exec.Command("cp", "-r", dir, other).Run())
	fresh := t.TempDir()
	for _, d := range []string{dir, other, fresh} {
		must(t, follow(t, topic, d, 30))
		sameFolder(t, filepath.Join(d, "step-000000000030"), filepath.Join(saved, "step-000000000030"))
	}
	err = follow(t, topic, t.TempDir(), 15, func(o *Options) { o.ToEnd = true })
	if err == nil || !strings.Contains(err.Error(), "no model of step 15: it was trimmed, and its oldest base is that of step 20") {
		t.Errorf("a step before the base: %v", err)
	}
	must(t, p.Trim(1<<40)) // a follower at the end of a topic lacks nothing
	trainTo(t, topic, saved, "40")
	must(t, follow(t, topic, other, 40))
	if err := follow(t, topic, t.TempDir(), 40, func(o *Options) { o.ToEnd = true }); !errors.As(err, new(*stream.Trimmed)) {
		t.Errorf("between base and topic: %v", err)
	}
	topic.Bases().Lose(0, 1<<30)
	err = follow(t, topic, t.TempDir(), 40, func(o *Options) { o.ToEnd = true })
	if !errors.As(err, new(*stream.Gap)) || !strings.Contains(err.Error(), "the beginning of the topic was trimmed, and ") {
		t.Errorf("without a base: %v", err)
	}
}

// TestNewest: a follower ends at the end that the topic had.
func TestNewest(t *testing.T) {
	topic, saved := stream.NewMemory(env.Real()), t.TempDir()
	must(t, topic.Create(2))
	if err := follow(t, topic, t.TempDir(), Newest); err == nil || !strings.Contains(err.Error(), "has no model yet") {
		t.Errorf("an empty topic: %v", err)
	}
	trainTo(t, topic, saved, "20")
	topic.Lose(1, 1) // one rank has not ended its epoch
	dir := t.TempDir()
	must(t, follow(t, topic, dir, Newest))
	sameFolder(t, filepath.Join(dir, "step-000000000015"), filepath.Join(saved, "step-000000000015"))
	trainTo(t, topic, saved, "30")
	must(t, follow(t, topic, dir, Newest))
	sameFolder(t, filepath.Join(dir, "step-000000000030"), filepath.Join(saved, "step-000000000030"))
	must(t, follow(t, topic, dir, Newest))
}

// killEvery is the most writes from one kill to the next.
const killEvery = 12

var errKilled = errors.New("killed")

// killable is a topic whose user is killed within its operation number left: that one is done in part, and all later ones fail.
type killable struct {
	stream.Topic
	left *atomic.Int64
}

func (k killable) Base() stream.Topic { return killable{k.Topic.Base(), k.left} }

func (k killable) Open(i int) (stream.Partition, error) {
	p, err := k.Topic.Open(i)
	return killablePartition{p, k.left}, err
}

type killablePartition struct {
	stream.Partition
	left *atomic.Int64
}

func (p killablePartition) Append(records [][]byte) error {
	switch left := p.left.Add(-1); {
	case left < 0:
		return errKilled
	case left == 0:
		return errors.Join(p.Partition.Append(records[:len(records)/2]), errKilled)
	}
	return p.Partition.Append(records)
}

func (p killablePartition) Sync() error {
	if p.left.Add(-1) < 0 {
		return &stream.Final{Err: errKilled}
	}
	return p.Partition.Sync()
}

func (p killablePartition) Trim(before int64) error {
	if p.left.Add(-1) < 0 {
		return errKilled
	}
	return p.Partition.Trim(before)
}

// TestKilledWithBases: a follower that trims is killed within each of its writes. The topic, with its bases, still leads to the
// model, and to that of another follower that trims.
func TestKilledWithBases(t *testing.T) {
	made, saved := filepath.Join(t.TempDir(), "topic"), t.TempDir()
	trainTo(t, stream.OpenFolder(env.Real(), made), saved, "60")
	for name, copied := range map[string]func(*testing.T) stream.Topic{
		"folder": func(t *testing.T) stream.Topic {
			path := filepath.Join(t.TempDir(), "topic")
			must(t, exec.Command("cp", "-r", made, path).Run())
			return stream.OpenFolder(env.Real(), path)
		},
		"memory": func(t *testing.T) stream.Topic { return memoryOf(t, made) },
		"memory with faults": func(t *testing.T) stream.Topic {
			m := memoryOf(t, made)
			var n atomic.Int64
			m.Fault = func(int) error {
				if n.Add(1)%7 == 0 {
					return errors.New("planned")
				}
				return nil
			}
			return m
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(len(name)), 1))
			for n := int64(1); ; n += 1 + r.Int64N(killEvery) {
				topic, left := copied(t), new(atomic.Int64)
				left.Store(n)
				bases := 0
				must(t, follow(t, killable{topic, left}, t.TempDir(), Newest, func(o *Options) {
					o.Trim, o.Stop = true, func() bool { return left.Load() <= 0 }
					o.Report = func(p Progress) {
						if p.Base != "" {
							bases++
						}
					}
				}))
				for _, trim := range []bool{false, true, false} {
					dir := t.TempDir()
					if err := follow(t, topic, dir, Newest, func(o *Options) { o.Trim = trim }); err != nil {
						t.Fatalf("killed within write %d, trim %v: %v", n, trim, err)
					}
					sameFolder(t, filepath.Join(dir, "step-000000000060"), filepath.Join(saved, "step-000000000060"))
				}
				if left.Load() > 0 {
					if bases < 2 {
						t.Errorf("%d bases were written", bases)
					}
					break
				}
			}
		})
	}
}

// renewed is a topic that was made anew, beside bases of the one before.
type renewed struct {
	stream.Topic
	bases stream.Topic
}

func (r renewed) Base() stream.Topic { return r.bases }

// TestBaseOfAnotherTopic: a base that the topic does not continue is left, also if the topic is longer than the one before was. If the
// beginning of the topic is missing too, the error names the bases.
func TestBaseOfAnotherTopic(t *testing.T) {
	before, topic, saved, dir := stream.NewMemory(env.Real()), stream.NewMemory(env.Real()), t.TempDir(), t.TempDir()
	trainTo(t, before, t.TempDir(), "20")
	must(t, follow(t, before, t.TempDir(), 20, func(o *Options) { o.Trim, o.Every = true, time.Hour }))
	trainFrom(t, "auto", topic, saved, "60", "job.seed=7")
	warned := ""
	must(t, follow(t, renewed{topic, before.Base()}, dir, 60, func(o *Options) { o.Warn = func(text string) { warned += text } }))
	sameFolder(t, filepath.Join(dir, "step-000000000060"), filepath.Join(saved, "step-000000000060"))
	if !strings.Contains(warned, "the topic does not continue the base of step 20") {
		t.Error(warned)
	}
	p, err := topic.Open(0)
	must(t, err)
	must(t, p.Trim(3))
	err = follow(t, renewed{topic, before.Base()}, t.TempDir(), 60)
	if err == nil || !strings.Contains(err.Error(), "neither continues its base") {
		t.Errorf("without its beginning: %v", err)
	}
}

// memoryOf is a topic in memory with the records of one in a folder.
func memoryOf(t *testing.T, path string) *stream.Memory {
	from, to := stream.OpenFolder(env.Real(), path), stream.NewMemory(env.Real())
	n, err := from.Partitions()
	must(t, err)
	must(t, to.Create(n))
	for i := range n {
		a, err := from.Open(i)
		must(t, err)
		records, err := a.Read(0, 1<<30, 0)
		must(t, err)
		to.Change(i, func([]stream.Record) []stream.Record { return records })
		a.Close()
	}
	return to
}

// TestDamagedBase: a base with a wrong row, in a frame whose sum is right, is skipped for the one before it, or for the topic;
// frames that are missing make one that is left out.
func TestDamagedBase(t *testing.T) {
	topic, saved := stream.NewMemory(env.Real()), t.TempDir()
	trainTo(t, topic, saved, "20")
	bases := func(x stream.Topic, dir string) {
		must(t, follow(t, x, dir, Newest, func(o *Options) { o.Trim = true }))
	}
	dir := t.TempDir()
	bases(untrimmed{topic}, dir)
	trainTo(t, topic, saved, "60")
	bases(untrimmed{topic}, dir)
	for name, damage := range map[string]func([]stream.Record) []stream.Record{
		"wrong row": func(list []stream.Record) []stream.Record {
			changeRow(list[len(list)-3].Bytes)
			return list
		},
		"missing frame": func(list []stream.Record) []stream.Record { return append(list[:len(list)-3], list[len(list)-2:]...) },
	} {
		var right []stream.Record
		topic.Bases().Change(1, func(list []stream.Record) []stream.Record {
			right = list
			var copies []stream.Record
			for _, r := range list {
				r.Bytes = bytes.Clone(r.Bytes)
				copies = append(copies, r)
			}
			return damage(copies)
		})
		made, warned := t.TempDir(), ""
		must(t, follow(t, topic, made, Newest, func(o *Options) { o.Warn = func(text string) { warned += fmt.Sprintln(text) } }))
		sameFolder(t, filepath.Join(made, "step-000000000060"), filepath.Join(saved, "step-000000000060"))
		if name == "wrong row" && !strings.Contains(warned, "is skipped") {
			t.Errorf("%s: %q", name, warned)
		}
		topic.Bases().Change(1, func([]stream.Record) []stream.Record { return right })
	}
}

// untrimmed is a topic whose bases are never trimmed.
type untrimmed struct{ stream.Topic }

func (u untrimmed) Base() stream.Topic { return untrimmed{u.Topic.Base()} }

func (u untrimmed) Open(i int) (stream.Partition, error) {
	p, err := u.Topic.Open(i)
	return untrimmedPartition{p}, err
}

type untrimmedPartition struct{ stream.Partition }

func (untrimmedPartition) Trim(int64) error { return nil }

// TestTwoTrimmers: a follower that is behind another one that writes bases does not write any, and trims nothing.
func TestTwoTrimmers(t *testing.T) {
	topic, saved := stream.NewMemory(env.Real()), t.TempDir()
	trainTo(t, topic, saved, "20")
	late, dir := t.TempDir(), t.TempDir()
	trim := func(session uint64, warned *string) func(o *Options) {
		return func(o *Options) {
			o.Trim, o.Session = true, session
			o.Warn = func(text string) { *warned += text }
		}
	}
	warned := ""
	must(t, follow(t, topic, late, 10))
	must(t, follow(t, topic, dir, 20, trim(1000, &warned)))
	trainTo(t, topic, saved, "30")
	must(t, follow(t, topic, dir, 30, trim(2000, &warned)))
	if warned != "" {
		t.Error(warned)
	}
	must(t, follow(t, topic, late, 30, trim(3000, &warned))) // from the base
	if !strings.Contains(warned, "replaces it") {
		t.Error(warned)
	}
	sameFolder(t, filepath.Join(late, "step-000000000030"), filepath.Join(saved, "step-000000000030"))
}
