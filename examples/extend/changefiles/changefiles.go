package changefiles

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/internal/env"
)

// To returns the factory for sinks that write below dir. The files of rank R that follow the
// rows of step B are in dir/rank-R-from-B, one for each commit.
func To(dir string) commit.SinkFactory {
	return func(o commit.SinkOptions) (commit.Sink, error) {
		return &sink{env: o.Env, root: filepath.Join(dir, fmt.Sprintf("rank-%d-from-", o.Rank))}, nil
	}
}

type sink struct {
	env      env.Env
	root     string
	dir      string // root and the step of Begin
	prepared int64
	sealed   []int64 // steps that are written and not committed
	slots    []int32 // scratch
	data     []byte  // scratch
	err      error   // of Begin, Commit or Roll, for the next Seal or Wait
}

func setName(step int64) string { return fmt.Sprintf("step-%012d", step) }

func (k *sink) name(step int64) string { return filepath.Join(k.dir, setName(step)) }
func (k *sink) part(step int64) string { return k.name(step) + ".part" }

// NeedsPreImages reports that only the new values of rows are read.
func (k *sink) NeedsPreImages() bool { return false }

// Begin begins a new folder. Its files follow the rows of that step. A reader finds these in the
// folder that has a set of the step; if none has, they are the initial values if drawn, or else
// those of the checkpoint.
func (k *sink) Begin(step int64, drawn bool) {
	k.dir, k.prepared, k.sealed = fmt.Sprint(k.root, step), step, nil
	k.do("begin", func() error {
		if err := k.finishSets(step); err != nil {
			return err
		}
		if err := os.RemoveAll(k.dir); err != nil {
			return err
		}
		return os.MkdirAll(k.dir, 0o777)
	})
}

// finishSets finishes the files of a lost sink of this rank. The set of a step gets its name, since
// another rank has committed it. The sets of later steps are removed.
func (k *sink) finishSets(step int64) error {
	files, err := filepath.Glob(k.root + "*/step-*")
	if err != nil {
		return err
	}
	for _, file := range files {
		set := filepath.Join(filepath.Dir(file), setName(step))
		if file == set+".part" {
			err = os.Rename(file, set)
		} else if file > set {
			err = os.Remove(file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Seal writes the rows that changed, and makes them durable.
func (k *sink) Seal(s *commit.Set) (err error) {
	if k.err != nil {
		return k.err
	}
	k.data = k.data[:0]
	if len(s.Slots) > 0 {
		if k.slots, err = s.Changed(k.slots[:0]); err != nil {
			return err
		}
		k.data = binary.LittleEndian.AppendUint32(k.data, uint32(len(k.slots)))
		for _, slot := range k.slots {
			k.data = binary.LittleEndian.AppendUint32(k.data, uint32(slot))
		}
		if k.data, err = s.Rows(k.data, k.slots); err != nil {
			return err
		}
	}
	if err := k.env.Do("write changes", func() error { return writeDurably(k.part(s.Step), k.data) }); err != nil {
		return err
	}
	k.sealed, k.prepared = append(k.sealed, s.Step), s.Step
	return nil
}

// Wait has nothing in the background to wait for.
func (k *sink) Wait() error { return k.err }

func (k *sink) Prepared() int64 { return k.prepared }

// Commit gives the files of sets up to a step their names.
func (k *sink) Commit(step int64) {
	for ; len(k.sealed) > 0 && k.sealed[0] <= step; k.sealed = k.sealed[1:] {
		of := k.sealed[0]
		k.do("commit", func() error { return os.Rename(k.part(of), k.name(of)) })
	}
}

// Roll commits up to a step, and removes the files of later sets.
func (k *sink) Roll(step int64) {
	k.Commit(step)
	for _, of := range k.sealed {
		k.do("roll", func() error { return os.Remove(k.part(of)) })
	}
	k.prepared, k.sealed = step, nil
}

func (k *sink) Close() {}

// do runs f, which blocks on a disk, and keeps its error.
func (k *sink) do(what string, f func() error) {
	if err := k.env.Do(what+" changes", f); err != nil && k.err == nil {
		k.err = err
	}
}

func writeDurably(name string, data []byte) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
