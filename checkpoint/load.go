package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"slices"

	"github.com/ecrec/ecrec/internal/directio"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/safetensors"
)

// Checkpoint is a checkpoint on the disk with a valid manifest, and with files of the sizes
// in it. It holds no open file.
type Checkpoint struct {
	Path string
	Manifest
	parents []*Checkpoint // of an increment: the full checkpoint, then increments in their order
	env     env.Env
}

// Problem is a checkpoint that was skipped.
type Problem struct {
	Path string
	Err  error
}

// Find opens the newest usable checkpoint of a folder, of a step below before (0: any step).
// It returns the ones that it skipped as problems, newest first. Without a checkpoint the
// result is nil. A Newer one is an error: the work since the one before it would be lost.
func Find(e env.Env, dir string, before int64) (*Checkpoint, []Problem, error) {
	var all []entry
	if err := e.Do("list checkpoints", func() (err error) {
		all, err = list(dir)
		return err
	}); err != nil {
		return nil, nil, fmt.Errorf("checkpoint: %w", err)
	}
	var problems []Problem
	for _, at := range slices.Backward(all) {
		if before > 0 && at.step >= before {
			continue
		}
		path := filepath.Join(dir, at.name)
		c, err := Open(e, path)
		if err == nil {
			return c, problems, nil
		}
		if errors.As(err, new(*Newer)) {
			return nil, problems, err
		}
		problems = append(problems, Problem{path, err})
	}
	return nil, problems, nil
}

// Found is a checkpoint as its manifest describes it. Its files have not been read.
type Found struct {
	Path      string
	*Manifest       // nil if Err is set
	Err       error // the manifest cannot be used
}

// List reads the manifest of the checkpoint at a path, or those of the checkpoints of a
// folder, newest first.
func List(e env.Env, path string) (found []Found, err error) {
	err = e.Do("list checkpoints", func() error {
		if isOne(path) {
			m, err := readManifest(path)
			found = []Found{{path, m, err}}
			return nil
		}
		all, err := list(path)
		for _, at := range slices.Backward(all) {
			f := Found{Path: filepath.Join(path, at.name)}
			f.Manifest, f.Err = readManifest(f.Path)
			found = append(found, f)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return found, nil
}

// Open opens the checkpoint in a folder, and its parents if it is an increment. It reads their manifests and compares
// the files' sizes with them; sums are checked when files are read.
func Open(e env.Env, path string) (c *Checkpoint, err error) {
	err = e.Do("open checkpoint", func() error {
		if c, err = openOne(path); err != nil {
			return err
		}
		return c.openParents()
	})
	if err != nil {
		return nil, err
	}
	for _, x := range append(slices.Clip(c.parents), c) {
		x.env = e
	}
	return c, nil
}

// openOne opens a checkpoint without its parents.
func openOne(path string) (*Checkpoint, error) {
	m, err := readManifest(path)
	if err != nil {
		return nil, err
	}
	for _, f := range m.AllFiles() {
		info, err := os.Stat(filepath.Join(path, f.Name))
		if errors.Is(err, os.ErrNotExist) {
			return nil, &Corrupt{path, f.Name, errors.New("it is missing")}
		}
		if err != nil {
			return nil, fmt.Errorf("checkpoint: %w", err)
		}
		if !info.Mode().IsRegular() {
			return nil, &Corrupt{path, f.Name, errNotRegular}
		}
		if info.Size() != f.Bytes {
			return nil, &Corrupt{path, f.Name, fmt.Errorf("it has %d bytes, not the %d of the manifest", info.Size(), f.Bytes)}
		}
	}
	return &Checkpoint{Path: path, Manifest: *m}, nil
}

// Check compares the checkpoint's model with a run's. The error is a Mismatch.
func (c *Checkpoint) Check(run Model) error {
	if d := c.Model.listDifferences(&run); d != "" {
		return &Mismatch{c.Path, d}
	}
	return nil
}

// RowSink stores a rank's rows. A shard.Shard is one.
type RowSink interface {
	// StoreRaw sets the bytes of the rows in slots, which ascend. Rows holds them one
	// after the other. The caller reuses both slices.
	StoreRaw(slots []int32, rows []byte) error
	// Populate may allocate memory for the n rows from a slot on, some of which will be
	// stored next. It runs at the same time as StoreRaw.
	Populate(slot int64, n, some int)
}

// ReadRows stores the touched rows of one of owners owners in a sink, on the calling
// goroutine. After an error the sink may hold wrong rows.
func (c *Checkpoint) ReadRows(owner, owners int, sink RowSink) error {
	shared := gcd(c.Ranks, owners)
	for rank := range c.Ranks {
		if rank%shared != owner%shared {
			continue // the file has none of these rows
		}
		for _, x := range append(slices.Clip(c.parents), c) { // later rows replace earlier ones
			if err := x.readRows(rank, owner, owners, sink); err != nil {
				return err
			}
		}
	}
	return nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// readRows stores an owner's rows of one file in a sink.
func (c *Checkpoint) readRows(rank, owner, owners int, sink RowSink) error {
	r, err := c.openFile(rank)
	if err != nil {
		return err
	}
	return c.storeRows(r, owner, owners, sink)
}

// storeRows stores an owner's rows of a file in a sink, and closes the file.
func (c *Checkpoint) storeRows(r *rowStream, owner, owners int, sink RowSink) error {
	defer r.closeReader()
	if owners == c.Ranks && !c.IsIncrement() { // most rows of an increment have memory
		defer c.populateAhead(r, sink)()
	}
	rowBytes := c.Model.rowBytes()
	var mine []int32
	var packed []byte
	for {
		slots, rows, err := r.nextRows()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if owners != c.Ranks {
			mine, packed = mine[:0], packed[:0]
			for i, slot := range slots {
				g := int64(slot)*int64(c.Ranks) + int64(r.rank)
				if int(g%int64(owners)) == owner {
					mine = append(mine, int32(g/int64(owners)))
					packed = append(packed, rows[i*rowBytes:(i+1)*rowBytes]...)
				}
			}
			slots, rows = mine, packed
		}
		if err := sink.StoreRaw(slots, rows); err != nil {
			return err
		}
	}
}

// populateBytes is how much memory is allocated at a time.
const populateBytes = 4 << 20

// populateAhead allocates the memory of a file's rows before they are stored. The system
// provides fresh memory as slowly as the disk reads, so both must run at the same time.
// The returned function stops it.
func (c *Checkpoint) populateAhead(r *rowStream, sink RowSink) (end func()) {
	stop, stopped := env.NewEvent(c.env, "stop populating"), env.NewEvent(c.env, "populated")
	slots := int(c.Model.placeRows(c.Ranks).Slots(r.rank))
	words := max(1, populateBytes/64/c.Model.rowBytes())
	c.env.Go("populate", func() {
		defer stopped.Set(nil)
		for at := 0; at < len(r.touched) && !stop.Done(); at += words {
			part := r.touched[at:min(at+words, len(r.touched))]
			touched := 0
			for _, w := range part {
				touched += bits.OnesCount64(w)
			}
			n := min(64*len(part), slots-64*at)
			sink.Populate(int64(64*at), n, touched)
		}
	})
	return func() {
		stop.Set(nil)
		_ = stopped.Wait()
	}
}

// ReadDense reads the dense weights and their optimizer state, in the order of run's
// tensors. Check must have found them equal to those of the checkpoint.
func (c *Checkpoint) ReadDense(run Model, weights, state []byte) error {
	f := c.Files[c.Ranks]
	begin, data, err := safetensors.Header(c.Model.denseSpecs())
	if err != nil {
		return err
	}
	if int64(len(weights)+len(state)) != data {
		panic(fmt.Sprintf("checkpoint: room for %d bytes of dense parameters, there are %d", len(weights)+len(state), data))
	}
	all, err := c.readFile(f)
	if err != nil {
		return err
	}
	if string(all[:len(begin)]) != string(begin) {
		return &Corrupt{c.Path, f.Name, errHeader}
	}
	all = all[len(begin):]
	at := map[string]int64{}
	next := int64(0)
	for _, s := range c.Model.denseSpecs() {
		at[s.Name] = next
		n, _ := s.Bytes() // checked with the manifest
		next += n
	}
	put := func(dst []byte, s safetensors.Spec) []byte {
		n, _ := s.Bytes()
		copy(dst[:n], all[at[s.Name]:])
		return dst[n:]
	}
	for i, s := range run.denseSpecs() {
		if i < len(run.weights()) {
			weights = put(weights, s)
		} else {
			state = put(state, s)
		}
	}
	return nil
}

var errHeader = errors.New("its header is not that of this model")

// ReadHistory returns the run's history.
func (c *Checkpoint) ReadHistory() ([]byte, error) {
	return c.readFile(c.Files[c.Ranks+1])
}

// ReadRecipe returns the recipe of the run's data, nil if there is none.
func (c *Checkpoint) ReadRecipe() ([]byte, error) {
	if c.Recipe == nil {
		return nil, nil
	}
	return c.readFile(*c.Recipe)
}

// readFile reads a file and checks its sum.
func (c *Checkpoint) readFile(f File) ([]byte, error) {
	var all []byte
	if err := c.readBlocks(f, func(b []byte) error {
		all = append(all, b...)
		return nil
	}); err != nil {
		return nil, err
	}
	return all, nil
}

// readBlocks calls use with the bytes of a file, block by block, and then checks the sum.
func (c *Checkpoint) readBlocks(f File, use func([]byte) error) error {
	r, err := directio.Open(c.env, filepath.Join(c.Path, f.Name), 0)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	defer r.Close()
	for {
		b, err := r.Next(nil)
		if errors.Is(err, io.EOF) {
			return c.checkSum(f, r)
		}
		if err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		if err := use(b); err != nil {
			return err
		}
	}
}

// checkSum compares a file that was read to its end with the manifest.
func (c *Checkpoint) checkSum(f File, r blocks) error {
	if r.Size() != f.Bytes {
		return &Corrupt{c.Path, f.Name, fmt.Errorf("it has %d bytes, not the %d of the manifest", r.Size(), f.Bytes)}
	}
	if sum := sumText(r.Sum()); sum != f.XXH3 {
		return &Corrupt{c.Path, f.Name, fmt.Errorf("its sum is %s, not the %s of the manifest", sum, f.XXH3)}
	}
	return nil
}
