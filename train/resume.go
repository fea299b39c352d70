package train

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/train/resume"
)

// checkSameRun checks that all ranks train the same run. Their processes may be on machines
// with files of their own.
func checkSameRun(c *control, run lineage.ID) error {
	all, err := c.gather(packLineage(run))
	if err != nil {
		return err
	}
	for id, x := range all {
		if unpackLineage(x) != unpackLineage(all[0]) {
			return config.Errorf("rank %d reads other data than rank 0: compare the files of data.train and model.init_from on their machines", id)
		}
	}
	return nil
}

// packLineage packs a lineage into 64-bit numbers.
func packLineage(id lineage.ID) []uint64 {
	return []uint64{binary.LittleEndian.Uint64(id[:8]), binary.LittleEndian.Uint64(id[8:])}
}

func unpackLineage(packed []uint64) (id lineage.ID) {
	binary.LittleEndian.PutUint64(id[:8], packed[0])
	binary.LittleEndian.PutUint64(id[8:], packed[1])
	return id
}

// resumeOwn restores the model of the newest step in the logs of store.path or in a checkpoint of the run's lineage in checkpoint.dir, in
// the middle of a job. New ranks learn the lineage from the others. It reports whether there was any.
func (r *rank) resumeOwn() (bool, error) {
	s, err := r.searchOwn()
	if err != nil {
		return false, err
	}
	logs, err := r.protection.findStored()
	if err != nil {
		return false, err
	}
	if resumed, err := r.protection.resumeStored(logs, s); err != nil || resumed {
		return resumed, err
	}
	resumed, err := r.resumeFrom(s)
	if from := r.job.o.Restore; err == nil && !resumed && from != nil { // the run has saved none yet
		if s, err = r.searchOwn(); err != nil {
			return false, err
		}
		s.From = from.Dir
		return r.resumeFrom(s)
	}
	return resumed, err
}

// searchOwn describes the search for a checkpoint of the run's lineage.
func (r *rank) searchOwn() (*resume.Search, error) {
	all, err := r.conns.ctl.gather(packLineage(r.lineage.Lineage))
	if err != nil {
		return nil, err
	}
	s := r.job.searchAsked()
	s.Asked, s.From, s.Auto, s.Rerun, s.AnyRun, s.Allow = "auto", r.job.cfg.Checkpoint.Dir, true, true, false, nil
	s.Run.Lineage = lineage.ID{}
	for _, x := range all {
		if id := unpackLineage(x); id != s.Run.Lineage {
			s.Run.Lineage = id
			break
		}
	}
	if r.lineage.Lineage == s.Run.Lineage {
		s.Run.Forks = r.lineage.Forks
	}
	return s, nil
}

// resumeFrom restores the checkpoint that a search finds. If it cannot be loaded, the one
// before it is tried. It reports whether there was any.
func (r *rank) resumeFrom(s *resume.Search) (bool, error) {
	for {
		c, err := findCheckpoint(s, r.conns.ctl, r.job)
		if err != nil {
			return false, err
		}
		if c == nil && s.Auto && s.IsFirst() {
			return false, nil
		}
		if c == nil {
			return false, config.Errorf("--resume %s: no checkpoint there can be used; see the messages above", s.Asked)
		}
		loaded := r.load(c)
		_, err = r.conns.ctl.agree(loaded, nil)
		if err == nil {
			r.done, r.checkpoints.saved = c.Step, c.Step
			if !r.job.o.EvalOnly {
				original := *s
				original.Run = r.job.run
				r.lineage = original.Continue(c.Run, c.Step)
				if x := &r.checkpoints.increments; x.followLoaded(c, r.job.cfg.Checkpoint.Dir, r.job.roles.rows, r.lineage.Lineage) {
					r.shard.ListWritten(true)
				}
				err = keeper{r}.adoptKept(filepath.Dir(c.Path))
			}
			return true, err
		}
		if !errors.As(err, new(*failedSave)) {
			return false, err
		}
		if r.id == 0 { // err is its own reason, or that of the first rank that has one
			s.Skipped(c.Path, err)
		}
		if errors.As(loaded, new(*checkpoint.Mismatch)) {
			return false, config.Errorf("%v", loaded)
		}
		r.shard.Reset()
		s.Skip(c)
	}
}

// load sets the rank to a checkpoint.
func (r *rank) load(c *checkpoint.Checkpoint) error {
	if p := r.protection; p != nil {
		p.log.loaded, p.log.digest = false, ""
	}
	text, err := r.checkpoints.loadPart(c)
	if err != nil {
		return err
	}
	if err := r.readHistory(text); err != nil {
		return fmt.Errorf("%s: the run's history: %w", c.Path, err)
	}
	return nil
}

// findCheckpoint opens the checkpoint to resume from, nil if there is none. Rank 0 searches,
// and the others open what it found.
func findCheckpoint(s *resume.Search, ctl *control, j *job) (*checkpoint.Checkpoint, error) {
	var found *checkpoint.Checkpoint
	var err error
	root := ctl.comm.Rank() == 0
	if root {
		var origin *resume.Origin
		if found, origin, err = findRestored(j, s); origin != nil {
			j.origin = origin
		}
	}
	all, err := ctl.agree(err, packPlace(s.From, found))
	if root {
		return found, err
	}
	if errors.As(err, new(*failedSave)) {
		return nil, &refused{err}
	}
	if err != nil {
		return nil, err
	}
	path, ok := unpackPlace(s.From, all[0])
	if !ok {
		return nil, nil
	}
	if found, err = checkpoint.Open(s.Env, path); err != nil {
		return nil, fmt.Errorf("checkpoint: rank %d cannot use %s, which rank 0 found (is the folder shared by all processes?): %w",
			ctl.comm.Rank(), path, err)
	}
	return found, nil
}

// findRestored is Search.Find. If the run resumes from a topic, it first makes the checkpoint.
func findRestored(j *job, s *resume.Search) (*checkpoint.Checkpoint, *resume.Origin, error) {
	r := j.o.Restore
	if r == nil || s.Auto || !s.IsFirst() {
		return s.Find()
	}
	x, err := r.Make(func(m checkpoint.Model) error {
		there := checkpoint.Checkpoint{Path: s.Asked, Manifest: checkpoint.Manifest{Model: m}}
		return there.Check(j.checkpointModel())
	})
	if err != nil {
		return nil, nil, config.Errorf("--resume %s: %w", s.Asked, err)
	}
	named := *s
	named.From = x.Path
	c, origin, err := named.Find()
	if origin != nil {
		origin.Source = x.Source
	}
	return c, origin, err
}

// refused is the error of the other ranks if rank 0 refuses to resume.
type refused struct{ cause error }

func (e *refused) Error() string { return e.cause.Error() }

// nameBytes is room for the name of any checkpoint in a folder.
const nameBytes = 48

const (
	placeNone   = iota // there is no checkpoint
	placeIsPath        // the path itself is the checkpoint
	placeInPath        // a folder in the path is; its name follows
)

// packPlace packs where a checkpoint is, relative to the path that was searched.
func packPlace(from string, c *checkpoint.Checkpoint) []uint64 {
	packed := make([]uint64, 1+nameBytes/8)
	switch {
	case c == nil:
	case c.Path == from:
		packed[0] = placeIsPath
	default:
		packed[0] = placeInPath
		var name [nameBytes]byte
		copy(name[:], filepath.Base(c.Path))
		for i := range packed[1:] {
			packed[1+i] = binary.LittleEndian.Uint64(name[8*i:])
		}
	}
	return packed
}

// unpackPlace returns the path of the checkpoint, and false if there is none.
func unpackPlace(from string, packed []uint64) (path string, ok bool) {
	switch packed[0] {
	case placeNone:
		return "", false
	case placeIsPath:
		return from, true
	}
	var name [nameBytes]byte
	for i, x := range packed[1:] {
		binary.LittleEndian.PutUint64(name[8*i:], x)
	}
	return filepath.Join(from, string(bytes.TrimRight(name[:], "\x00"))), true
}
