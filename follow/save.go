package follow

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/internal/atomicfile"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/stream"
	"github.com/ecrec/ecrec/train"
)

// positionsFile is the file with the positions in the topic of each checkpoint.
const positionsFile = "follow.json"

// saved is a checkpoint, and the place where a Follower that loads it reads on.
type saved struct {
	Path      string            `json:"checkpoint"` // its folder
	Step      int64             `json:"step"`
	Digest    string            `json:"digest"`
	Positions []stream.Position `json:"positions"`         // by partition
	Written   int64             `json:"written,omitempty"` // when the cut was written, in milliseconds since 1970
	About     json.RawMessage   `json:"about"`
}

// positions is the content of positionsFile, oldest first.
type positions struct {
	Topic       string  `json:"topic"`
	Checkpoints []saved `json:"checkpoints"`
}

// save saves the model as a checkpoint.
func (f *Follower) save(full bool) error {
	m := f.model
	if m.step == f.last && !(full && f.increment) {
		return nil
	}
	history, run, err := train.StreamedHistory(m.record, m.losses, m.Run)
	if err != nil {
		return err
	}
	s := &checkpoint.Save{Env: f.o.Env, Dir: f.o.Dir, Step: m.step, Generation: 1, Session: fmt.Sprintf("%016x", f.o.Session),
		Ranks: len(m.shards), Model: m.model, Run: &run,
		Recipe: m.Recipe,
		Keep:   f.o.Keep, Alone: f.lock.Holds()}
	if x := f.saves; !full && x.parent != nil && x.parent.Step < m.step && x.chain < checkpoint.MaxIncrements && 2*x.rows[1] < x.rows[0] &&
		x.parent.Check(f.o.Env, f.o.Dir) == nil {
		s.Parent = x.parent
	}
	if err := s.Begin(); err != nil {
		return err
	}
	planned := filepath.Base(s.Path())
	parts, err := f.writeFiles(s)
	if err == nil {
		err = f.notePositions(planned)
	}
	if err == nil {
		err = s.Commit(parts, m.want, history)
	} else {
		_ = s.Abort() // err is the reason
	}
	if name := filepath.Base(s.Path()); err == nil && name != planned {
		err = f.notePositions(name) // a checkpoint that cannot be replaced has the planned name
	}
	for _, h := range m.shards {
		h.EndSave(err != nil)
	}
	if err != nil {
		f.saves.parent = nil
		return err
	}
	if left := s.NotRemoved(); left != nil {
		f.o.Warn(fmt.Sprintf("an old checkpoint cannot be removed: %v; each save tries again", left))
	}
	f.finishSave(s, parts)
	return nil
}

// writeFiles writes the dense part and the rows of all owners.
func (f *Follower) writeFiles(s *checkpoint.Save) (parts []checkpoint.Part, err error) {
	m := f.model
	weights, _ := m.model.DenseBytes()
	part, err := s.WriteDense(m.dense[:weights], m.dense[weights:])
	if err != nil {
		return nil, err
	}
	parts = append(parts, part)
	for owner, h := range m.shards {
		var pin *shard.Pin
		if s.Parent != nil {
			pin = h.PinWritten()
		} else {
			pin = h.Pin()
		}
		part, err := s.WriteRows(owner, pin)
		pin.Close()
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// finishSave notes a checkpoint that is complete, and writes a base if one is due.
func (f *Follower) finishSave(s *checkpoint.Save, parts []checkpoint.Part) {
	m, rows := f.model, int64(0)
	for _, p := range parts {
		rows += p.Rows
	}
	if s.Parent == nil {
		f.saves.chain, f.saves.rows = 0, [2]int64{rows, 0}
	} else {
		f.saves.chain++
		f.saves.rows[1] += rows
	}
	f.saves.parent, f.increment = s.AsParent(), s.Parent != nil
	f.last, f.saved = m.step, f.o.Env.Now()
	f.path = s.Path()
	f.o.Report(Progress{Step: m.step, Digest: m.want, Path: s.Path(), Touched: m.touched()})
	if m.want != "" && f.isBaseDue() {
		f.writeBase()
	}
}

// readPositions reads positionsFile, and drops checkpoints that are gone.
func (f *Follower) readPositions() (p positions, err error) {
	b, err := os.ReadFile(filepath.Join(f.o.Dir, positionsFile))
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		return p, fmt.Errorf("%s: %w; remove the file, and the checkpoints beside it", filepath.Join(f.o.Dir, positionsFile), err)
	}
	var there []saved
	for _, x := range p.Checkpoints {
		if _, err := os.Stat(filepath.Join(f.o.Dir, filepath.Base(x.Path))); err == nil {
			there = append(there, x)
		}
	}
	p.Checkpoints = there
	return p, nil
}

// HasModel reports whether a Follower that is opened on the folder finds a checkpoint there.
func HasModel(dir string) bool {
	f := Follower{o: Options{Dir: dir}}
	p, err := f.readPositions()
	return err == nil && len(p.Checkpoints) > 0
}

// notePositions writes the positions of a checkpoint, before it is published: a position without its checkpoint is dropped, the
// reverse would lose it.
func (f *Follower) notePositions(name string) error {
	p, err := f.readPositions()
	if err != nil {
		return err
	}
	m := f.model
	p.Topic = f.o.Topic.Name()
	p.Checkpoints = append(p.Checkpoints, saved{name, m.step, m.want, m.at, m.written, m.text})
	b, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return err
	}
	return f.o.Env.Do("write "+positionsFile, func() error {
		return atomicfile.WriteFile(filepath.Join(f.o.Dir, positionsFile), append(b, '\n'))
	})
}

// loadNewest begins with the newest checkpoint that has positions.
func (f *Follower) loadNewest() error {
	p, err := f.readPositions()
	if err != nil {
		return err
	}
	if p.Topic != "" && !stream.IsSame(p.Topic, f.o.Topic.Name()) {
		return &OtherTopic{f.o.Dir, p.Topic, f.o.Topic.Name()}
	}
	for i := len(p.Checkpoints) - 1; i >= 0; i-- {
		x := p.Checkpoints[i]
		err := f.loadSaved(x)
		if err == nil {
			return nil
		}
		f.o.Warn(fmt.Sprintf("%s is skipped: %v", filepath.Join(f.o.Dir, x.Path), err))
	}
	return nil
}

func (f *Follower) loadSaved(x saved) error {
	c, err := checkpoint.Open(f.o.Env, filepath.Join(f.o.Dir, filepath.Base(x.Path)))
	if err != nil {
		return err
	}
	m, err := newModel(f.o.Env, x.About)
	if err != nil {
		return err
	}
	if err = m.loadSaved(c, x); err != nil {
		m.free()
		return err
	}
	m.readers = f.o.Publish != nil
	f.model, f.last, f.path, f.increment = m, m.step, c.Path, c.IsIncrement()
	return nil
}

// OtherTopic is the error of a folder whose Follower followed another topic.
type OtherTopic struct{ Dir, There, Here string }

func (e *OtherTopic) Error() string {
	return fmt.Sprintf("%s follows the topic %s, not %s: use another folder", e.Dir, e.There, e.Here)
}

// Saved is the path of the checkpoint of a step that a Follower of a topic has saved in a folder. It is empty if there is none.
func Saved(dir string, topic stream.Topic, step int64) string {
	f := Follower{o: Options{Dir: dir}}
	p, err := f.readPositions()
	if err != nil || !stream.IsSame(p.Topic, topic.Name()) {
		return ""
	}
	for i := len(p.Checkpoints) - 1; i >= 0; i-- {
		if x := p.Checkpoints[i]; x.Step == step {
			return filepath.Join(dir, filepath.Base(x.Path))
		}
	}
	return ""
}

// dropFolder removes the checkpoints that Followers have saved in the folder.
func (f *Follower) dropFolder() error {
	p, err := f.readPositions()
	if err != nil {
		p = positions{} // the file is damaged
	}
	return f.o.Env.Do("remove checkpoints", func() error {
		err := os.Remove(filepath.Join(f.o.Dir, positionsFile))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		for _, x := range p.Checkpoints {
			err = errors.Join(err, os.RemoveAll(filepath.Join(f.o.Dir, filepath.Base(x.Path))))
		}
		return err
	})
}

// loadSaved sets the model to that of a checkpoint.
func (m *model) loadSaved(c *checkpoint.Checkpoint, x saved) error {
	if err := c.Check(m.model); err != nil {
		return err
	}
	if c.Ranks != len(m.shards) || len(x.Positions) != len(m.Owners) || c.Step != x.Step {
		return errors.New("it does not fit its positions")
	}
	weights, state := m.model.DenseBytes()
	m.dense = make([]byte, weights+state)
	if err := c.ReadDense(m.model, m.dense[:weights], m.dense[weights:]); err != nil {
		return err
	}
	text, err := c.ReadHistory()
	if err != nil {
		return err
	}
	if m.record, m.losses, err = train.SplitHistory(text, *c.Run); err != nil {
		return err
	}
	for owner, h := range m.shards {
		if err := c.ReadRows(owner, len(m.shards), h); err != nil {
			return err
		}
		if m.sums[owner], err = h.Digest(); err != nil {
			return err
		}
	}
	m.step, m.at, m.want, m.written = x.Step, x.Positions, x.Digest, x.Written
	return m.checkDigest()
}
