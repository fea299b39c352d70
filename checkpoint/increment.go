package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/ecrec/ecrec/internal/env"
)

// MaxIncrements is the most increments that follow a full checkpoint.
const MaxIncrements = 30

// IsIncrement reports whether the checkpoint has a parent.
func (m *Manifest) IsIncrement() bool { return m.Parent != nil }

// countRows returns the number of rows in the row files.
func (m *Manifest) countRows() (n int64) {
	for _, f := range m.Files[:m.Ranks] {
		n += f.Rows
	}
	return n
}

// ChainRows is the number of rows in the row files of an increment's full checkpoint, and in those of the increments
// from there on, of which there are n.
func (c *Checkpoint) ChainRows() (full, increments int64, n int) {
	for _, x := range c.parents {
		increments += x.countRows()
	}
	if increments += c.countRows(); len(c.parents) == 0 {
		return increments, 0, 0
	}
	full = c.parents[0].countRows()
	return full, increments - full, len(c.parents)
}

// AsParent names the checkpoint as the parent of an increment in the folder dir, by a run of some ranks. It is nil if
// there can be none.
func (c *Checkpoint) AsParent(dir string, ranks int) *Parent {
	path := filepath.Clean(c.Path)
	name := filepath.Base(path)
	if _, ok := stepOf(name); !ok || filepath.Clean(dir) != filepath.Dir(path) || c.Ranks != ranks {
		return nil
	}
	return &Parent{name, c.Step, c.sum}
}

// Check returns an error unless p and its own parents are in the folder dir. It reads their manifests only.
func (p *Parent) Check(e env.Env, dir string) error {
	return e.Do("check parents", func() error { return p.checkChain(dir) })
}

// checkChain is Check. Nil has no parents.
func (p *Parent) checkChain(dir string) error {
	for n := 0; p != nil; n++ {
		path := filepath.Join(dir, p.Name)
		m, err := readManifest(path)
		switch {
		case err != nil:
		case m.sum != p.XXH3:
			err = fmt.Errorf("%s: the sum of its manifest is %s, not %s", path, m.sum, p.XXH3)
		case n == MaxIncrements:
			err = fmt.Errorf("%s: more than %d increments follow it", path, MaxIncrements)
		}
		if err != nil {
			return fmt.Errorf("a parent of the increment cannot be used: %w; the next checkpoint is full", err)
		}
		p = m.Parent
	}
	return nil
}

// openParents opens the parents of an increment, up to the full checkpoint.
func (c *Checkpoint) openParents() error {
	dir := ""
	for at := c; at.Parent != nil; at = c.parents[len(c.parents)-1] {
		if dir == "" {
			var err error
			if dir, err = folderOf(c.Path); err != nil {
				return fmt.Errorf("checkpoint: %w", err)
			}
		}
		want := at.Parent
		p, err := openOne(filepath.Join(dir, want.Name))
		switch {
		case err != nil:
			return &Orphan{c.Path, want.Name, err}
		case p.sum != want.XXH3:
			err = fmt.Errorf("the sum of its manifest is %s, not %s", p.sum, want.XXH3)
		case p.Ranks != c.Ranks || lineageOf(p.Run) != lineageOf(c.Run):
			err = fmt.Errorf("it is of lineage %s and %d ranks, not of %s and %d", lineageOf(p.Run).Short(), p.Ranks,
				lineageOf(c.Run).Short(), c.Ranks)
		case p.Model.listDifferences(&c.Model) != "":
			err = errors.New("it holds another model: " + p.Model.listDifferences(&c.Model))
		case len(c.parents) == MaxIncrements:
			err = fmt.Errorf("more than %d increments follow each other", MaxIncrements)
		}
		if err != nil {
			return &Orphan{c.Path, want.Name, err}
		}
		c.parents = append(c.parents, p)
	}
	slices.Reverse(c.parents)
	return nil
}

// folderOf is the folder that holds a checkpoint, whose path may be a link or a dot.
func folderOf(path string) (string, error) {
	path = filepath.Clean(path)
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		if _, ok := stepOf(filepath.Base(path)); ok {
			return filepath.Dir(path), nil
		}
	}
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	return filepath.Dir(path), err
}
