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

// Checkpoint is a checkpoint on the disk whose manifest is in order and whose
// files have the sizes that it gives. It holds no open file.
type Checkpoint struct {
	Path string
	Manifest
	env env.Env
}

// Problem is a checkpoint that was passed over.
type Problem struct {
	Path string
	Err  error
}

// Find opens the newest checkpoint of a folder that is not torn, of a step below
// before (0: any step). The ones that are torn come back as problems, newest
// first. There may be no checkpoint: then the result is nil. A Newer one is an
// error: to go on from the one before it would be to lose what it holds.
func Find(e env.Env, dir string, before int64) (*Checkpoint, []Problem, error) {
	var steps []int64
	if err := e.Do("list checkpoints", func() (err error) {
		steps, err = list(dir)
		return err
	}); err != nil {
		return nil, nil, fmt.Errorf("checkpoint: %w", err)
	}
	var problems []Problem
	for _, step := range slices.Backward(steps) {
		if before > 0 && step >= before {
			continue
		}
		path := filepath.Join(dir, stepName(step))
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

// Open opens the checkpoint in a folder. It reads the manifest and compares the
// files' sizes with it; sums are checked when files are read.
func Open(e env.Env, path string) (c *Checkpoint, err error) {
	err = e.Do("open checkpoint", func() error {
		c, err = open(path)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.env = e
	return c, nil
}

// maxManifest bounds what is read of a file that should be a manifest.
const maxManifest = 256 << 20

func open(path string) (*Checkpoint, error) {
	name := filepath.Join(path, manifestFile)
	info, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		if _, ok := stepOf(filepath.Base(path)); ok {
			if _, err := os.Stat(path); err == nil {
				return nil, &Corrupt{path, manifestFile, errors.New("it is missing")}
			}
		}
		return nil, &NotFound{path}
	}
	if err == nil && info.Size() > maxManifest {
		return nil, &Corrupt{path, manifestFile, fmt.Errorf("%d bytes are too many", info.Size())}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	m, err := parseManifest(b)
	var newer errNewer
	if errors.As(err, &newer) {
		return nil, &Newer{path, int(newer)}
	}
	if err != nil {
		return nil, &Corrupt{path, manifestFile, err}
	}
	for _, f := range m.Files {
		info, err := os.Stat(filepath.Join(path, f.Name))
		if errors.Is(err, os.ErrNotExist) {
			return nil, &Corrupt{path, f.Name, errors.New("it is missing")}
		}
		if err != nil {
			return nil, fmt.Errorf("checkpoint: %w", err)
		}
		if info.Size() != f.Bytes {
			return nil, &Corrupt{path, f.Name, fmt.Errorf("it has %d bytes, the manifest says %d", info.Size(), f.Bytes)}
		}
	}
	return &Checkpoint{Path: path, Manifest: *m}, nil
}

// Check compares the checkpoint's model with a run's; the error is a Mismatch.
func (c *Checkpoint) Check(run Model) error {
	if d := c.Model.differences(&run); d != "" {
		return &Mismatch{c.Path, d}
	}
	return nil
}

// RowSink takes a rank's rows; shard.Shard is one.
type RowSink interface {
	// StoreRaw sets the bytes of the rows in slots, which ascend; rows holds them one
	// after the other. Both are lost when it returns.
	StoreRaw(slots []int32, rows []byte) error
	// Populate may take the memory of n rows from a slot on; most of them will be
	// stored. It is called beside StoreRaw.
	Populate(slot int64, n int)
}

// ReadRows gives the touched rows of an owner, of owners in all, to a sink on the
// calling goroutine. After an error some are stored that may be wrong.
func (c *Checkpoint) ReadRows(owner, owners int, sink RowSink) error {
	shared := gcd(c.Ranks, owners)
	for rank := range c.Ranks {
		if rank%shared != owner%shared {
			continue // has none of these rows
		}
		if err := c.readRows(rank, owner, owners, sink); err != nil {
			return err
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

// readRows gives an owner's rows in one file to a sink.
func (c *Checkpoint) readRows(rank, owner, owners int, sink RowSink) error {
	r, err := c.openRows(rank)
	if err != nil {
		return err
	}
	defer r.close()
	if owners == c.Ranks {
		defer c.populate(r, sink)()
	}
	rowBytes := c.Model.rowBytes()
	var mine []int32
	var packed []byte
	for {
		slots, rows, err := r.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if owners != c.Ranks {
			mine, packed = mine[:0], packed[:0]
			for i, slot := range slots {
				g := int64(slot)*int64(c.Ranks) + int64(rank)
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

// populateBytes is how much memory is taken at a time.
const populateBytes = 4 << 20

// populate takes the memory of the rows of a file ahead of storing them: fresh
// memory comes as slowly as the disk reads, so both have to be under way at once.
// Where few rows are touched, their pages come one by one. The function that it
// returns ends that.
func (c *Checkpoint) populate(r *rowStream, sink RowSink) (end func()) {
	stop, stopped := env.NewEvent(c.env, "stop populating"), env.NewEvent(c.env, "populated")
	slots := int(c.Model.place(c.Ranks).Slots(r.rank))
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
			if 2*touched > n {
				sink.Populate(int64(64*at), n)
			}
		}
	})
	return func() {
		stop.Set(nil)
		_ = stopped.Wait()
	}
}

// ReadDense reads the dense weights and their optimizer state to where they lie
// in memory, in the order of run's tensors, which Check has found to be those of
// the checkpoint.
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
		if i < len(run.Tensors) {
			weights = put(weights, s)
		} else {
			state = put(state, s)
		}
	}
	return nil
}

var errHeader = errors.New("its header is not that of this model")

// ReadHistory returns what the run wanted to remember.
func (c *Checkpoint) ReadHistory() ([]byte, error) {
	return c.readFile(c.Files[c.Ranks+1])
}

// readFile reads a whole file and checks its sum.
func (c *Checkpoint) readFile(f File) ([]byte, error) {
	var all []byte
	if err := c.stream(f, func(b []byte) error {
		all = append(all, b...)
		return nil
	}); err != nil {
		return nil, err
	}
	return all, nil
}

// stream gives the bytes of a file to use, block by block, and then checks the
// sum.
func (c *Checkpoint) stream(f File, use func([]byte) error) error {
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
func (c *Checkpoint) checkSum(f File, r *directio.Reader) error {
	if r.Size() != f.Bytes {
		return &Corrupt{c.Path, f.Name, fmt.Errorf("it has %d bytes, the manifest says %d", r.Size(), f.Bytes)}
	}
	if sum := sumText(r.Sum()); sum != f.XXH3 {
		return &Corrupt{c.Path, f.Name, fmt.Errorf("its sum is %s, the manifest says %s", sum, f.XXH3)}
	}
	return nil
}
