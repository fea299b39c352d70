package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/internal/atomicfile"
	"github.com/ecrec/ecrec/internal/directio"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/lineage"
)

// Save is a checkpoint that is being written. Every rank has its own, with equal fields
// except Env. To create one has no effect.
type Save struct {
	Env        env.Env
	Dir        string // checkpoint.dir
	Step       int64
	Generation uint64 // of the world that saves
	// Session distinguishes the job from others of its lineage that save to Dir, where there are no locks: a random
	// text, for a file's name. Empty: such a job may remove the files of this save, which fails then.
	Session string
	Ranks   int
	Model   Model
	Run     *lineage.Run // that it belongs to; nil: it names none
	// Parent is the checkpoint of which this one is an increment, in Dir and of the same lineage; nil: it is full.
	// Only the rank that calls Commit needs its fields.
	Parent *Parent
	Recipe []byte // of the data, of the rank that calls Commit; empty: there is none
	// Earlier is the path of a checkpoint that may have the same recipe; empty: there is none. A large recipe
	// is not written again then: the checkpoints share its file.
	Earlier string
	Keep    int  // how many checkpoints of its lineage to keep, with this one; 0: all
	Alone   bool // no other run saves to Dir: a Lock is held

	path       string    // once it is published
	published  *Manifest // then; nil: an earlier one of the same step stays
	notRemoved error     // then
}

// Part describes a file that a rank wrote, for Commit.
type Part struct {
	Rank  int // DenseRank for the dense file
	Rows  int64
	Bytes int64
	Sum   uint64 // XXH3
}

// DenseRank is the Rank of the dense file's Part.
const DenseRank = -1

// Words is p as plain numbers, which ranks can send.
func (p Part) Words() []uint64 {
	return []uint64{uint64(int64(p.Rank)), uint64(p.Rows), uint64(p.Bytes), p.Sum}
}

// PartOf is the Part of Words.
func PartOf(words []uint64) Part {
	return Part{Rank: int(int64(words[0])), Rows: int64(words[1]), Bytes: int64(words[2]), Sum: words[3]}
}

// Path is the path of the checkpoint once Commit has succeeded. Its name is step-N. If a
// checkpoint has that name that cannot be replaced, the lineage follows.
func (s *Save) Path() string {
	if s.path != "" {
		return s.path
	}
	return filepath.Join(s.Dir, stepName(s.Step))
}

func (s *Save) lineageID() lineage.ID { return lineageOf(s.Run) }

func (s *Save) tmpPath() string {
	why := fmt.Sprint(s.Generation)
	if s.Session != "" {
		why += "-" + s.Session
	}
	return filepath.Join(s.Dir, tmpName(stepName(s.Step), s.lineageID(), why))
}

// Begin creates the folder to write to, and removes folders that dead runs left. One rank
// calls it, before any rank writes.
func (s *Save) Begin() error {
	return s.Env.Do("begin checkpoint", func() error {
		if err := atomicfile.MakeDir(s.Dir, 0o755); err != nil {
			return saveError(s.Dir, err)
		}
		_ = removeLeftovers(s.Dir, s.lineageID(), s.Alone) // Mkdir returns an error if any is in the way
		return saveError(s.Dir, os.Mkdir(s.tmpPath(), 0o755))
	})
}

// saveError adds advice to an error in writing.
func saveError(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("checkpoint: %w; free some space or lower checkpoint.keep (earlier checkpoints are complete)", err)
	case errors.Is(err, os.ErrPermission), errors.Is(err, unix.EROFS), errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("checkpoint: %s cannot be written: %w; choose another checkpoint.dir", path, err)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("checkpoint: %s is gone: %w; does another job save to this checkpoint.dir?", path, err)
	}
	return fmt.Errorf("checkpoint: %w", err)
}

// WriteRows writes the touched rows of a rank, durably. All ranks may write at the same
// time. The source is read on the calling goroutine only.
func (s *Save) WriteRows(rank int, src RowSource) (Part, error) {
	w, err := s.OpenRows(rank, src)
	if err != nil {
		return Part{Rank: rank}, err
	}
	defer w.Abort()
	for w.Left() > 0 {
		if _, err := w.Copy(w.Left()); err != nil {
			return w.part, err
		}
	}
	return w.Close()
}

// WriteDense writes the dense weights and their optimizer state, durably: the bytes of both
// as in memory, in the order of Model.Tensors and Model.Statistics, state value by value. One rank calls it,
// since all ranks have equal dense parts.
func (s *Save) WriteDense(weights, state []byte) (Part, error) {
	p, err := s.writeDense(weights, state)
	return p, saveError(s.tmpPath(), err)
}

func (s *Save) writeDense(weights, state []byte) (Part, error) {
	p := Part{Rank: DenseRank}
	begin, data, err := safetensors.Header(s.Model.denseSpecs())
	if err != nil {
		return p, err
	}
	if n := s.Model.denseBytes(); int64(len(weights)) != n || int64(len(weights)+len(state)) != data {
		panic(fmt.Sprintf("checkpoint: %d bytes of dense weights and %d of state, the model has %d and %d", len(weights), len(state), n, data-n))
	}
	p.Bytes = int64(len(begin)) + data
	w, err := directio.Create(s.Env, filepath.Join(s.tmpPath(), denseFile), p.Bytes, 0)
	if err != nil {
		return p, err
	}
	defer w.Abort()
	for _, b := range [][]byte{begin, weights, state} {
		if _, err := w.Write(b); err != nil {
			return p, err
		}
	}
	p.Sum, err = w.Close()
	return p, err
}

// Commit makes the checkpoint visible and removes older ones beyond Keep. One rank calls it
// with the parts of all ranks and of the dense file. Digest may be empty. After an error
// the checkpoint is missing, or it is complete and may not survive a loss of power. NotRemoved
// returns errors in removing older ones.
func (s *Save) Commit(parts []Part, digest string, history []byte) error {
	m := Manifest{Step: s.Step, Ranks: s.Ranks, Digest: digest, Run: s.Run, Model: s.Model, Parent: s.Parent}
	if len(s.Model.Parts) > 0 {
		m.Needs = append(m.Needs, needsRowParts)
	}
	if len(s.Model.Statistics) > 0 {
		m.Needs = append(m.Needs, needsStatistics)
	}
	if slices.ContainsFunc(s.Model.Parts, func(p RowPart) bool { return p.Optimizer != "" || p.Init != "" }) {
		m.Needs = append(m.Needs, needsPartRules)
	}
	if s.Parent != nil {
		m.Needs = append(m.Needs, needsParent)
	}
	parts = slices.Clone(parts)
	slices.SortFunc(parts, func(a, b Part) int {
		return cmp.Compare(uint(a.Rank), uint(b.Rank)) // DenseRank last
	})
	for _, p := range parts {
		name := denseFile
		if p.Rank != DenseRank {
			name = rowsFile(p.Rank)
		}
		m.Files = append(m.Files, File{Name: name, Rows: p.Rows, Bytes: p.Bytes, XXH3: sumText(p.Sum)})
	}
	m.Files = append(m.Files, File{Name: historyFile, Bytes: int64(len(history)), XXH3: sumText(xxh3.Hash(history))})
	if len(s.Recipe) > 0 {
		m.Recipe = &File{Name: recipeFile, Bytes: int64(len(s.Recipe)), XXH3: sumText(xxh3.Hash(s.Recipe))}
	}
	if err := m.check(); err != nil {
		panic(fmt.Sprintf("checkpoint: parts do not make a checkpoint: %v", err))
	}
	return s.Env.Do("commit checkpoint", func() error {
		if err := s.publishAs(&m, history); err != nil {
			return saveError(s.tmpPath(), err)
		}
		s.notRemoved = errors.Join(s.notRemoved, retain(s.Dir, s.lineageID(), s.Step, s.Keep))
		return nil
	})
}

// NotRemoved returns why older checkpoints could not be removed, once Commit has succeeded. Nil: all were.
func (s *Save) NotRemoved() error { return s.notRemoved }

// publishAs writes history, recipe and manifest, and gives the folder its name.
func (s *Save) publishAs(m *Manifest, history []byte) error {
	b, err := m.encode()
	if err != nil {
		return err
	}
	tmp := s.tmpPath()
	if err := atomicfile.WriteFile(filepath.Join(tmp, historyFile), history); err != nil {
		return err
	}
	if m.Recipe != nil {
		if err := s.writeRecipe(filepath.Join(tmp, recipeFile), m.Recipe); err != nil {
			return err
		}
	}
	if err := atomicfile.WriteFile(filepath.Join(tmp, manifestFile), b); err != nil {
		return err
	}
	if err := atomicfile.SyncDir(tmp); err != nil {
		return err
	}
	if err := checkWritten(tmp, m); err != nil {
		return err
	}
	if err := s.Parent.checkChain(s.Dir); err != nil {
		return err
	}
	return s.giveName(m, false)
}

// giveName renames the folder, with the other of its two names if that is set.
func (s *Save) giveName(m *Manifest, other bool) error {
	name, stays, err := s.findName(other)
	if err != nil {
		return err
	}
	tmp, path := s.tmpPath(), filepath.Join(s.Dir, name)
	old := tmp
	if s.path, s.published = path, nil; !stays {
		s.published = m
		if old, err = rename(tmp, path); errors.Is(err, errNoExchange) {
			if name == stepName(s.Step) { // that checkpoint stays: the step has one at any time
				return s.giveName(m, true)
			}
			old = filepath.Join(s.Dir, tmpName(name, s.lineageID(), removed))
			err = replace(tmp, path, old)
		}
		if err != nil {
			return err
		}
		if err := atomicfile.SyncDir(s.Dir); err != nil {
			return err
		}
	}
	s.notRemoved = os.RemoveAll(old)
	return nil
}

// checkWritten finds files of a manifest that are not as they were written: another job has removed the folder.
func checkWritten(tmp string, m *Manifest) error {
	for _, f := range m.AllFiles() {
		path := filepath.Join(tmp, f.Name)
		info, err := os.Lstat(path)
		if err == nil && info.Size() != f.Bytes {
			err = fmt.Errorf("%s has %d bytes, and %d were written; does another job save to this checkpoint.dir?", path, info.Size(), f.Bytes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// findName returns the name of the checkpoint: one that is free, or that of a checkpoint that may be replaced; the other
// of the two names if that is set. If all names are those of parents, an earlier checkpoint stays: all of a step and
// lineage hold one model.
func (s *Save) findName(other bool) (name string, stays bool, err error) {
	name = stepName(s.Step)
	if _, err := os.Stat(filepath.Join(s.Dir, name)); errors.Is(err, os.ErrNotExist) {
		return name, false, nil
	}
	all, err := readFolder(s.Dir)
	if err != nil {
		return name, false, err
	}
	parents := all.parents()
	if other || parents[name] || !replaceable(filepath.Join(s.Dir, name), s.lineageID()) {
		name = nameOf(s.Step, s.lineageID())
	}
	return name, parents[name] && all[name].manifest != nil, nil // a damaged one is replaced
}

// AsParent names the checkpoint as the parent of an increment, once Commit has succeeded. It is nil if there can be
// no increment of it: an earlier one has stayed, which may be the last of its chain.
func (s *Save) AsParent() *Parent {
	if s.published == nil {
		return nil
	}
	return &Parent{filepath.Base(s.path), s.Step, s.published.sum}
}

// sharedBytes is the size from which checkpoints share a recipe's file. Smaller ones are copies, of which
// damage to one leaves the others.
const sharedBytes = 1 << 20

// writeRecipe makes the recipe's file.
func (s *Save) writeRecipe(path string, want *File) error {
	if s.Earlier != "" && want.Bytes >= sharedBytes {
		m, err := readManifest(s.Earlier)
		if err == nil && m.Recipe != nil && *m.Recipe == *want && os.Link(filepath.Join(s.Earlier, recipeFile), path) == nil {
			return nil
		}
	}
	return atomicfile.WriteFile(path, s.Recipe)
}

// Abort removes all written files after a rank failed. One rank calls it, when no other rank
// writes any more.
func (s *Save) Abort() error {
	return s.Env.Do("abort checkpoint", func() error { return os.RemoveAll(s.tmpPath()) })
}
