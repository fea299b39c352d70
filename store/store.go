package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/filelock"
	"github.com/ecrec/ecrec/rowlog"
	"github.com/ecrec/ecrec/shard"
)

// Store is one rank's store.
type Store struct {
	o    Options
	path string
	lock *os.File // nil: the file system has no locks
	dir  Dir
	log  Log         // of the writer, unless it is idle
	disk *rowlog.Log // the same, nil if it is a stream

	// Of the training goroutine.
	sealed []*epoch   // not committed, oldest first
	held   heldEpochs // committed
	paused bool       // see Pause
	step   int64      // of the newest set, or of Begin
	losses int64      // how many are in sealed epochs, held ones or the log
	hold   bool       // the next epoch is held

	restored int64         // the step of Restore, until Begin
	lost     bool          // by Lose, until Begin
	uncut    bool          // CutTo failed: the log begins anew when all rows are written
	all      bool          // the log lacks rows: all are written at the first seal after they are rebuilt
	allAt    int64         // the step of that seal
	allAfter time.Duration // it is not tried before: the log did not take the rows

	begunAt int64 // the step of Begin
	missed  bool  // a set was sealed since then while there was no log

	below *Below // nil: all rows are in memory
	begun bool   // the folder has the note that no step is durable on all ranks yet; of the writer while it writes

	monitor  env.Monitor
	queue    []*epoch
	spare    []*epoch // their memory is used again
	readable int64    // the mark of the newest epoch in the log
	writing  bool
	ended    bool // the writer is gone
	closed   bool
	durable  int64
	settled  int64
	problem  error // why nothing becomes durable; nil: all is well
	failed   bool  // for good, unless the log is a stream
	fresh    Log   // a stream that was opened again, until the next seal; nil: there is none
	ending   bool  // the job ends: a stream that failed is opened again soon
}

// IndexBytes is the memory of the index of a log, for each slot up to the largest in use.
const IndexBytes = rowlog.IndexBytes

// rowFolder is the folder of a rank.
func rowFolder(rank int) string { return fmt.Sprintf("rank-%05d", rank) }

// Open opens the store of a rank, and locks it. The log of another run, or of another number of ranks, is an error.
func Open(o Options) (s *Store, err error) {
	s = newStore(o)
	if err = s.open(); err != nil {
		s.closeFiles()
		return nil, s.explain(err)
	}
	s.startWriter()
	return s, nil
}

func newStore(o Options) *Store {
	if o.Retry == 0 {
		o.Retry = time.Second
	}
	return &Store{o: o, path: filepath.Join(o.Path, rowFolder(o.Rank)), monitor: o.Env.Monitor("store")}
}

func (s *Store) startWriter() { s.o.Env.Go(fmt.Sprintf("store of rank %d", s.o.Rank), s.write) }

// Broken is the store of a rank whose folder cannot be opened, with the reason. It takes epochs and keeps none, so that a job which has
// trained continues.
func Broken(o Options, why error) *Store {
	s := newStore(o)
	s.problem, s.failed, s.ended = why, true, true
	return s
}

func (s *Store) open() (err error) {
	o := &s.o
	if o.Stream != nil {
		s.log, err = o.Stream()
		return err
	}
	if o.Dir != nil {
		s.dir, err = o.Dir(s.path)
	} else {
		if err = rowlog.MakeDir(o.Env, s.path); err == nil {
			err = o.Env.Do("lock "+s.path, s.takeLock)
		}
		if err == nil {
			s.dir, err = openDir(o.Env, s.path)
		}
	}
	if err != nil {
		return err
	}
	s.disk, err = rowlog.Open(rowlog.Options{Dir: s.dir, Lineage: o.Lineage, Owner: o.Rank, Owners: o.Ranks,
		RowBytes: o.Shard.RowBytes(), Slots: s.slots() + s.lossSlots(), Lock: o.Env.Monitor("index of the log")})
	if err != nil {
		return err
	}
	s.log = s.disk
	s.begun, err = s.dir.Begun()
	return err
}

// openDir opens the folder of a rank on the machine's disk.
func openDir(e env.Env, path string) (Dir, error) {
	d, err := rowlog.OpenDir(e, path, rowlog.Access{})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// explain adds the place and advice to an error of Open.
func (s *Store) explain(err error) error {
	var foreign *rowlog.Foreign
	var damaged *rowlog.Corrupt
	switch {
	case errors.As(err, &foreign) && foreign.Owners != s.o.Ranks: // the number of trainers is part of the lineage
		return fmt.Errorf("store.path: %s is of a job with %d ranks, and this one has %d: %w; set job.ranks to %d, or use another store.path",
			s.path, foreign.Owners, s.o.Ranks, err, foreign.Owners)
	case foreign != nil && foreign.Lineage == s.o.Lineage:
		return fmt.Errorf("store.path: %s is the folder of another rank: %w; put the folder of each rank at its place, or use another store.path",
			s.path, err)
	case foreign != nil:
		return fmt.Errorf("store.path: %s is of another run: %w; use another store.path, or remove the folder", s.path, err)
	case errors.As(err, &damaged):
		return fmt.Errorf("store.path: %s: %w; remove the folder, and resume from a checkpoint", s.path, err)
	case errors.As(err, new(*rowlog.Format)):
		return fmt.Errorf("store.path: %s: %w; use the version of ecrec that wrote it, or another store.path", s.path, err)
	}
	return s.named(err)
}

// ErrBusy is the error of a folder that another job uses.
var ErrBusy = errors.New("another job uses it; use another store.path")

func (s *Store) takeLock() error {
	f, err := os.OpenFile(filepath.Join(s.path, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	switch err := filelock.Try(f, filelock.Exclusive); {
	case err == nil:
		s.lock = f
		return nil
	case errors.Is(err, filelock.ErrHeld):
		f.Close()
		return ErrBusy
	}
	f.Close() // no locks on this file system
	return nil
}

// slots is the number of the rank's rows.
func (s *Store) slots() int64 { return s.o.Shard.Slots() }

// lossSlots is the limit of rows with losses. The log may be one of a run that was longer.
func (s *Store) lossSlots() int64 {
	if s.o.Past == nil {
		return 0
	}
	return shard.MaxSlots - s.slots()
}

// Step is the last step that the log holds. It is called before Begin, as is Holds.
func (s *Store) Step() int64 {
	s.Drain(drainFor)
	s.idle()
	if s.log == nil {
		return 0
	}
	return max(0, s.log.Step()-1)
}

// In the log an epoch has the step after its last one, since the log may begin with the rows of step 0.
func logged(step int64) int64 { return step + 1 }

// drainFor is how long Step waits for the writer.
const drainFor = time.Minute

// Holds reports whether the log holds the model after a step.
func (s *Store) Holds(step int64) bool { return step == 0 || s.log.Holds(logged(step)) }

// Durable is the last step that survives the loss of all processes, 0 if there is none.
func (s *Store) Durable() int64 {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	return s.durable
}

// Settle says that a step is durable on all ranks.
func (s *Store) Settle(step int64) {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	s.settled = max(s.settled, step)
}

// mostQueued is the most epochs in the queue of a store that is not behind.
const mostQueued = 1

// Behind reports whether the next epoch should be held.
func (s *Store) Behind() bool {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	if s.o.Backlog == 0 {
		return len(s.queue) > mostQueued
	}
	return waiting(s.queue) > s.o.Backlog
}

// Crowded reports whether the next epoch should be held although it ends at a checkpoint: twice the backlog waits.
func (s *Store) Crowded() bool {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	return waiting(s.queue) > 2*s.o.Backlog
}

// waiting is how many bytes a queue has.
func waiting(queue []*epoch) (bytes int64) {
	for _, e := range queue {
		bytes += int64(len(e.rows) + len(e.extra))
	}
	return bytes
}

// Hold decides whether the next epoch is held, to be written with the one after it.
func (s *Store) Hold(hold bool) { s.hold = hold }

// Problem returns the reason if epochs do not become durable.
func (s *Store) Problem() error {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	if s.problem == nil {
		return nil
	}
	return s.named(s.problem)
}

// named adds the place of the log to an error.
func (s *Store) named(err error) error {
	if s.o.Key != "" {
		return fmt.Errorf("%s: %w", s.o.Key, err)
	}
	return fmt.Errorf("store.path: %s: %w", s.path, err)
}

// Drain waits until the queue is durable, or a disk cannot be written, at most for a time.
func (s *Store) Drain(most time.Duration) {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	for until := s.o.Env.Now() + most; (len(s.queue) > 0 || s.writing) && s.mayDrain() && s.o.Env.Now() < until; {
		s.monitor.WaitUntil(until)
	}
}

// mayDrain reports whether the writer may still write its queue. A disk that cannot be written is not waited for; a broker may come back.
func (s *Store) mayDrain() bool {
	return !s.ended && (s.problem == nil || s.o.Stream != nil && !s.failed)
}

// write appends the queued epochs, until Close.
func (s *Store) write() {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	pause := firstPause * s.o.Retry // until a stream that failed is opened again
	if s.log == nil {
		pause = 0
	}
	for {
		for len(s.queue) == 0 && !s.closed && !s.mayReopen() {
			s.monitor.Wait()
		}
		if s.closed {
			break
		}
		if s.mayReopen() {
			pause = s.reopen(pause)
			continue
		}
		e, settled := s.queue[0], s.settled
		s.writing = true
		s.monitor.Unlock()
		err := s.append(e, settled)
		s.monitor.Lock()
		s.writing = false
		switch {
		case err == nil:
			s.problem, s.durable, pause = nil, s.log.Durable()-1, firstPause*s.o.Retry
			s.recycle()
		case s.log.Failed() != nil || errors.As(err, new(*rowlog.Corrupt)): // another attempt would not help
			s.problem, s.failed = err, true
			s.queue = nil
		default:
			s.problem = err
			for until := s.o.Env.Now() + s.o.Retry; s.o.Env.Now() < until && !s.closed; {
				s.monitor.WaitUntil(until)
			}
		}
		s.monitor.Wake()
	}
	s.ended = true
	s.monitor.Wake()
}

// recycle moves the first epoch of the queue to the spare ones.
func (s *Store) recycle() {
	e := s.queue[0]
	s.queue = append(s.queue[:0], s.queue[1:]...)
	s.spare = addSpare(s.spare, e)
}

// append appends an epoch to the log, and makes it durable.
func (s *Store) append(e *epoch, settled int64) error {
	if settled > 0 {
		if err := s.noteBegun(false); err != nil {
			return err
		}
		s.log.Settle(logged(settled))
	}
	if s.log.Step() < logged(e.step) { // a failed attempt may have appended it
		if err := s.log.Append(logged(e.step), e.slots, e.rows, e.extra); err != nil {
			return err
		}
		if err := s.log.Clean(int64(len(e.rows))); err != nil {
			return err
		}
	}
	s.monitor.Lock()
	s.readable = max(s.readable, e.mark)
	s.monitor.Unlock()
	return s.log.Sync()
}

// Close ends the writer. Epochs that it has not written are lost. A second call does nothing.
func (s *Store) Close() {
	s.monitor.Lock()
	s.closed = true
	s.monitor.Wake()
	for !s.ended {
		s.monitor.Wait()
	}
	s.monitor.Unlock()
	s.closeFiles()
}

func (s *Store) closeFiles() {
	if s.log != nil {
		s.log.Close()
	}
	if s.dir != nil {
		s.dir.Close()
	}
	if s.lock != nil {
		s.lock.Close()
	}
	if s.fresh != nil {
		s.fresh.Close()
	}
	s.log, s.disk, s.dir, s.lock, s.fresh = nil, nil, nil, nil, nil
}

// idle waits until the writer has nothing to do, and drops its queue. The log belongs to the training goroutine then,
// until it queues an epoch.
func (s *Store) idle() {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	s.queue = s.queue[:min(len(s.queue), 1)]
	for s.writing {
		s.monitor.Wait()
	}
	s.queue = s.queue[:0]
}

var _ commit.Sink = (*Store)(nil)
