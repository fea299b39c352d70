package checkpoint

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

var seedFlag = flag.Uint64("seed", 0, "replay the tests of this seed")

func TestMain(m *testing.M) {
	if os.Getenv(crashEnv) != "" {
		saveUntilKilled()
	}
	goleak.VerifyTestMain(m)
}

// random prints the seed of a test.
func random(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: go test -run '%s' -seed %d", seed, t.Name(), seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// world is the rows of all ranks and the dense part that they share.
type world struct {
	model          Model
	dev            kernels.Device
	streams        []kernels.Stream
	shards         []*shard.Shard
	weights, state []byte
}

// randomModel has random tables, optimizers and dense tensors.
func randomModel(rnd *rand.Rand) Model {
	m := Model{Kind: "dlrm", Seed: rnd.Uint64(), Width: 1 + rnd.IntN(20), RowState: rnd.IntN(3), Sparse: "adam", Dense: "adam",
		DenseState: rnd.IntN(3)}
	for range 1 + rnd.IntN(4) {
		m.Tables = append(m.Tables, Table{"emb_l." + string(rune('0'+len(m.Tables))) + ".weight", 1 + rnd.Int64N(900)})
	}
	m.Tensors = []Tensor{{"top.weight", []int64{1 + rnd.Int64N(9), 3}}, {"top.bias", []int64{1 + rnd.Int64N(9)}}}
	return m
}

// newWorld creates empty shards for a model on n ranks.
func newWorld(m Model, n int) *world {
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		panic(err)
	}
	w := &world{model: m, dev: dev, weights: make([]byte, m.denseBytes()), state: make([]byte, m.denseBytes()*int64(m.DenseState))}
	tables := make([]int64, len(m.Tables))
	for i, t := range m.Tables {
		tables[i] = t.Rows
	}
	for rank := range n {
		s := dev.Stream(1)
		h, err := shard.New(dev, s, shard.Options{Map: placement.New(tables, n), Owner: rank, Seed: m.Seed, Width: m.Width, State: m.RowState})
		if err != nil {
			panic(err)
		}
		w.streams, w.shards = append(w.streams, s), append(w.shards, h)
	}
	return w
}

func (w *world) close() {
	for i, h := range w.shards {
		h.Close()
		w.streams[i].Close()
	}
}

// fill stores random bytes in about a share of the rows, in runs, and in the
// dense part.
func (w *world) fill(rnd *rand.Rand, share float64) {
	for _, h := range w.shards {
		on := false
		for slot := range h.Slots() {
			if rnd.IntN(4) == 0 {
				on = rnd.Float64() < share
			}
			if on {
				row := make([]byte, h.RowBytes())
				scribble(rnd, row)
				if err := h.StoreRaw([]int32{int32(slot)}, row); err != nil {
					panic(err)
				}
			}
		}
	}
	scribble(rnd, w.weights)
	scribble(rnd, w.state)
}

func scribble(rnd *rand.Rand, b []byte) {
	for i := range len(b) / 4 {
		binary.LittleEndian.PutUint32(b[4*i:], rnd.Uint32())
	}
}

// digest is the model's, as the trainer computes it.
func (w *world) digest() digest.Sum {
	total := digest.Of("dense state", nil, w.state)
	at := 0
	for _, s := range w.model.denseSpecs()[:len(w.model.Tensors)] {
		n, _ := s.Bytes()
		total.Add(digest.Of("dense", []byte(s.Name), w.weights[at:at+int(n)]))
		at += int(n)
	}
	for _, h := range w.shards {
		d, err := h.Digest()
		if err != nil {
			panic(err)
		}
		total.Add(d)
	}
	return total
}

// each runs f for all ranks at the same time.
func (w *world) each(f func(rank int) error) error {
	errs := make([]error, len(w.shards))
	var wg sync.WaitGroup
	for rank := range w.shards {
		wg.Go(func() { errs[rank] = f(rank) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// save writes a checkpoint with all ranks at the same time, each with a Save of its own.
func (w *world) save(s Save) error {
	s.Env, s.Ranks, s.Model = env.Real(), len(w.shards), w.model
	if err := s.Begin(); err != nil {
		return err
	}
	parts := make([]Part, len(w.shards))
	err := w.each(func(rank int) (err error) {
		own := s
		parts[rank], err = own.WriteRows(rank, w.shards[rank])
		parts[rank] = PartOf(parts[rank].Words())
		return err
	})
	dense, derr := s.WriteDense(w.weights, w.state)
	if err == nil {
		err = derr
	}
	if err != nil {
		if aerr := s.Abort(); aerr != nil {
			panic(aerr)
		}
		return err
	}
	return s.Commit(append(parts, dense), w.digest().String(), history(s.Step))
}

func history(step int64) []byte { return bytes.Repeat([]byte{byte(step), 7}, int(step%5)) }

// load reads a checkpoint into the world.
func (w *world) load(c *Checkpoint) error {
	if err := c.Check(w.model); err != nil {
		return err
	}
	if err := c.ReadDense(w.model, w.weights, w.state); err != nil {
		return err
	}
	return w.each(func(rank int) error { return c.ReadRows(rank, len(w.shards), w.shards[rank]) })
}
