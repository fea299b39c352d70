package stream

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// Memory is a topic in memory, for tests and simulations. It can lose what is not acknowledged, delay it and write it twice.
type Memory struct {
	env     env.Env
	monitor env.Monitor
	parts   []*memoryLog
	base    *Memory // nil: nothing was asked of it yet
	// Fault, if set, is called before each Append and Sync, with the number of the partition. The error is returned; of an Append
	// some records are then written, and of a Sync none or all are.
	Fault func(partition int) error
	// Doubles, if set, reports whether records are written twice, as by a writer that missed an acknowledgement.
	Doubles func(partition int) bool
}

// memoryLog is a partition, for all its readers and writers.
type memoryLog struct {
	first, next int64
	records     []Record // that are acknowledged, ascending; offsets between them may be missing
}

// NewMemory makes a topic that does not exist yet.
func NewMemory(e env.Env) *Memory { return &Memory{env: e, monitor: e.Monitor("topic")} }

// Name implements Topic.
func (t *Memory) Name() string { return "memory" }

// Partitions implements Topic.
func (t *Memory) Partitions() (int, error) {
	t.monitor.Lock()
	defer t.monitor.Unlock()
	return len(t.parts), nil
}

// Create implements Topic.
func (t *Memory) Create(partitions int) error {
	t.monitor.Lock()
	defer t.monitor.Unlock()
	for len(t.parts) < partitions {
		t.parts = append(t.parts, &memoryLog{})
	}
	return nil
}

// Open implements Topic.
func (t *Memory) Open(partition int) (Partition, error) {
	t.monitor.Lock()
	defer t.monitor.Unlock()
	if partition >= len(t.parts) {
		return nil, errors.New("there is no such partition")
	}
	return &memoryPartition{topic: t, number: partition, log: t.parts[partition]}, nil
}

// Keeps implements Topic.
func (t *Memory) Keeps() error { return nil }

// Base implements Topic.
func (t *Memory) Base() Topic { return t.Bases() }

// Bases is Base. It has the faults that this topic has at the first call.
func (t *Memory) Bases() *Memory {
	t.monitor.Lock()
	defer t.monitor.Unlock()
	if t.base == nil {
		t.base = NewMemory(t.env)
		t.base.Fault, t.base.Doubles = t.Fault, t.Doubles
	}
	return t.base
}

// Close implements Topic.
func (t *Memory) Close() {}

// Lose removes the newest acknowledged records of a partition, which no topic should do.
func (t *Memory) Lose(partition, n int) {
	t.monitor.Lock()
	defer t.monitor.Unlock()
	l := t.parts[partition]
	for ; n > 0 && len(l.records) > 0; n-- {
		l.next = l.records[len(l.records)-1].Offset
		l.records = l.records[:len(l.records)-1]
	}
}

// Change calls f with the records of a partition, and keeps what it returns. Records that f leaves out leave holes.
func (t *Memory) Change(partition int, f func([]Record) []Record) {
	t.monitor.Lock()
	defer t.monitor.Unlock()
	l := t.parts[partition]
	l.records = f(l.records)
	if n := len(l.records); n > 0 {
		l.next = max(l.next, l.records[n-1].Offset+1)
	}
}

// memoryPartition is one writer's or reader's use of a partition.
type memoryPartition struct {
	topic   *Memory
	number  int
	log     *memoryLog
	waiting [][]byte // not acknowledged
	closed  atomic.Bool
}

func (p *memoryPartition) fault() error {
	if p.topic.Fault == nil {
		return nil
	}
	return p.topic.Fault(p.number)
}

func (p *memoryPartition) Bounds() (first, next int64, err error) {
	p.topic.monitor.Lock()
	defer p.topic.monitor.Unlock()
	return p.log.first, p.log.next, nil
}

func (p *memoryPartition) Append(records [][]byte) error {
	err := p.fault()
	if err != nil {
		records = records[:len(records)/2]
	}
	for _, b := range records {
		p.waiting = append(p.waiting, slices.Clone(b))
	}
	return err
}

func (p *memoryPartition) Sync() error {
	if err := p.fault(); err != nil {
		return err
	}
	p.topic.monitor.Lock()
	defer p.topic.monitor.Unlock()
	times := 1
	if p.topic.Doubles != nil && p.topic.Doubles(p.number) {
		times = 2
	}
	for range times {
		for _, b := range p.waiting {
			p.log.records = append(p.log.records, Record{Offset: p.log.next, Bytes: b})
			p.log.next++
		}
	}
	p.waiting = nil
	p.topic.monitor.Wake()
	return nil
}

func (p *memoryPartition) Read(from int64, bytes int, wait time.Duration) (list []Record, err error) {
	t := p.topic
	t.monitor.Lock()
	defer t.monitor.Unlock()
	until := t.env.Now() + wait
	for from >= p.log.next && t.env.Now() < until && !p.closed.Load() {
		t.monitor.WaitUntil(until)
	}
	if from < p.log.first {
		return nil, &Trimmed{p.number, from, p.log.first, p.log.next}
	}
	for i := p.log.search(from); i < len(p.log.records) && bytes > 0; i++ {
		list = append(list, p.log.records[i])
		bytes -= len(p.log.records[i].Bytes)
	}
	return list, nil
}

func (p *memoryPartition) Trim(before int64) error {
	p.topic.monitor.Lock()
	defer p.topic.monitor.Unlock()
	before = min(max(before, p.log.first), p.log.next)
	p.log.records, p.log.first = slices.Clone(p.log.records[p.log.search(before):]), before
	return nil
}

// search finds the first record from an offset on.
func (l *memoryLog) search(from int64) int {
	i, _ := slices.BinarySearchFunc(l.records, from, func(r Record, from int64) int { return cmp.Compare(r.Offset, from) })
	return i
}

// Close drops what is not acknowledged.
func (p *memoryPartition) Close() {
	p.closed.Store(true)
	p.topic.monitor.Lock()
	defer p.topic.monitor.Unlock()
	p.waiting = nil
	p.topic.monitor.Wake()
}
