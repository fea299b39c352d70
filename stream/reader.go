package stream

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lineage"
)

// ReaderOptions describe a Reader.
type ReaderOptions struct {
	Env   env.Env
	Topic Topic
	// At is the position in each partition, of one cut; nil: the reader begins with the first record of each.
	At []Position
	// Left are the runs that were left before At: their records are dropped.
	Left []lineage.Fork
	// ToEnd makes Next return io.EOF behind the last cut that the topic had when the reader was opened.
	ToEnd bool
	// Bases is set if the topic is one of bases: bases that lack frames are left out.
	Bases bool
}

// Reader reads the cuts of a topic. A goroutine for each partition reads ahead as far as the next cut needs it.
type Reader struct {
	o       ReaderOptions
	monitor env.Monitor
	merge   *Merge
	chains  []*Chain
	ends    []int64 // by partition: the offset at which the reader ends; ToEnd only
	silent  []error // by partition: the broker does not answer
	err     error
	closed  bool
	running int
}

// readBytes is how much is read at once; readWait is how long a goroutine waits for a record.
const (
	readBytes = 8 << 20
	readWait  = 200 * time.Millisecond
)

// OpenReader begins to read.
func OpenReader(o ReaderOptions) (*Reader, error) {
	n, err := o.Topic.Partitions()
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, errors.New("the topic does not exist: start the job that writes to it first")
	case o.At != nil && len(o.At) != n:
		return nil, fmt.Errorf("the topic has %d partitions, the reader was at %d: it was made anew, for another number of ranks", n, len(o.At))
	}
	r := &Reader{o: o, monitor: o.Env.Monitor("stream reader"), merge: NewMerge(n), silent: make([]error, n)}
	var parts []Partition
	for i := range n {
		p, err := o.Topic.Open(i)
		if err == nil {
			parts = append(parts, p)
			err = r.openChain(i, p)
		}
		if err != nil {
			for _, p := range parts {
				p.Close()
			}
			return nil, err
		}
	}
	r.running = n
	for i, p := range parts {
		o.Env.Go(fmt.Sprintf("stream reader of partition %d", i), func() { r.readOn(i, p) })
	}
	return r, nil
}

// openChain sets the position of a partition.
func (r *Reader) openChain(i int, p Partition) error {
	first, next, err := p.Bounds()
	if err != nil {
		return err
	}
	at := Start(first)
	if r.o.At != nil {
		at = r.o.At[i]
	}
	if at.Next < first || at.Next > next {
		return Missing(i, at.Next, first, next)
	}
	chain := NewChain(i, at)
	if r.o.Bases {
		chain = newBaseChain(i, at)
	}
	chain.ranks = len(r.silent)
	chain.leave(r.o.Left)
	r.chains, r.ends = append(r.chains, chain), append(r.ends, next)
	return nil
}

// readOn reads a partition.
func (r *Reader) readOn(i int, p Partition) {
	defer p.Close()
	r.monitor.Lock()
	defer r.monitor.Unlock()
	for !r.closed && r.err == nil {
		if !r.merge.Lacks(i) || r.isAtEnd(i) {
			r.monitor.Wait()
			continue
		}
		next := r.chains[i].readTo()
		r.monitor.Unlock()
		records, err := p.Read(next, readBytes, readWait)
		r.monitor.Lock()
		r.silent[i] = nil
		if errors.As(err, new(*Silent)) {
			r.silent[i], err = err, nil
		}
		if err == nil {
			err = r.takeRecords(i, records)
		}
		if r.err == nil && err != nil {
			r.err = err
		}
		if err != nil || len(records) > 0 {
			r.monitor.Wake()
		}
	}
	r.running--
	r.monitor.Wake()
}

// takeRecords takes the records of a partition.
func (r *Reader) takeRecords(i int, records []Record) error {
	for _, x := range records {
		if r.isAtEnd(i) {
			break // it was written later
		}
		e, err := r.chains[i].Take(x)
		if err != nil {
			return err
		}
		if e != nil {
			r.merge.Add(e)
		}
	}
	return nil
}

// isAtEnd reports whether a partition is read to the end that ToEnd names.
func (r *Reader) isAtEnd(i int) bool { return r.o.ToEnd && r.chains[i].readTo() >= r.ends[i] }

// isEnded reports whether no cut is left up to the end that ToEnd names: the partitions that lack an epoch are read.
func (r *Reader) isEnded() bool {
	for i := range r.chains {
		if r.merge.Lacks(i) && !r.isAtEnd(i) {
			return false
		}
	}
	return r.o.ToEnd
}

// Silence returns the reason if a broker does not answer at present: a Silent.
func (r *Reader) Silence() error {
	r.monitor.Lock()
	defer r.monitor.Unlock()
	for _, err := range r.silent {
		if err != nil {
			return err
		}
	}
	return nil
}

// Next returns the next cut. It waits for it at most some time, and returns nil then. An error is final. With ToEnd it is io.EOF
// behind the last cut.
func (r *Reader) Next(wait time.Duration) (*Cut, error) {
	r.monitor.Lock()
	defer r.monitor.Unlock()
	for until := r.o.Env.Now() + wait; ; {
		if c := r.merge.Next(); c != nil {
			r.monitor.Wake()
			return c, nil
		}
		if r.err == nil && r.isEnded() {
			r.err = io.EOF
			r.monitor.Wake()
		}
		if r.err != nil || r.closed || r.o.Env.Now() >= until {
			return nil, r.err
		}
		r.monitor.WaitUntil(until)
	}
}

// Close ends the reader.
func (r *Reader) Close() {
	r.monitor.Lock()
	defer r.monitor.Unlock()
	r.closed = true
	r.monitor.Wake()
	for r.running > 0 {
		r.monitor.Wait()
	}
}
