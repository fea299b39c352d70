package train

import (
	"fmt"
	"sync"
	"testing"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// adding is a DLRM that adds up its slices' sizes in each pass, and records what its batches hold.
type adding struct {
	model.Model
	dev     kernels.Device
	s       kernels.Stream
	sums    kernels.Buffer
	checker *addingChecker
}

// addingChecker collects the batches of all ranks.
type addingChecker struct {
	mu       sync.Mutex
	trained  map[int64]map[int64]int // by step: the size of the slice that begins at First
	scored   int
	problems []string
}

func (k *addingChecker) kind() model.Kind {
	dlrm, _ := model.Find("dlrm")
	kind := dlrm
	kind.Name = "adding"
	kind.Shape = func(c model.Config) model.Shape {
		s := dlrm.Shape(c)
		s.AddsUp = true
		s.Constants += 2
		return s
	}
	kind.New = func(dev kernels.Device, s kernels.Stream, c model.Config) (model.Model, error) {
		inner, err := dlrm.New(dev, s, c)
		if err != nil {
			return nil, err
		}
		sums, err := dev.Alloc(8, kernels.Shared)
		return &adding{inner, dev, s, sums, k}, err
	}
	return kind
}

func (m *adding) Forward(in model.Batch) kernels.Matrix {
	k := m.checker
	k.mu.Lock()
	if !in.Train {
		k.scored++
	} else if b := in.Dense.Rows; b > 0 {
		if k.trained[in.Step] == nil {
			k.trained[in.Step] = map[int64]int{}
		}
		k.trained[in.Step][in.First] = b
	}
	k.mu.Unlock()
	m.add(in)
	return m.Model.Forward(in)
}

func (m *adding) Backward(in model.Batch, dlogits kernels.Matrix, ready func(kernels.Buffer)) kernels.Matrix {
	defer m.add(in) // when gradients are being reduced
	return m.Model.Backward(in, dlogits, ready)
}

func (m *adding) add(in model.Batch) {
	if !in.Train {
		return
	}
	got := []float32{float32(in.Dense.Rows), 1}
	m.s.Upload(m.sums, kernels.BytesOf(got))
	in.AddUp(m.sums)
	m.s.Download(kernels.BytesOf(got), m.sums)
	if got[0] != float32(in.GlobalN) && in.Dense.Rows > 0 {
		m.checker.mu.Lock()
		m.checker.problems = append(m.checker.problems, fmt.Sprintf("step %d: the slices have %v samples, GlobalN is %d", in.Step, got[0], in.GlobalN))
		m.checker.mu.Unlock()
	}
}

func (m *adding) Close() {
	m.Model.Close()
	m.dev.Free(m.sums)
}

// The batches of a model say where their slices lie in the global batch, and AddUp adds up over
// all trainers, whatever the roles of the ranks. The result is that of the model within.
func TestBatchContext(t *testing.T) {
	defer func(kinds []model.Kind) { model.Kinds = kinds }(model.Kinds)
	kinds := model.Kinds
	for _, sets := range [][]string{{"job.ranks=1"}, {"job.ranks=3"}, {"job.ranks=5"}, {"job.ranks=4", "ranks.readers=1"},
		{"job.ranks=5", "ranks.trainers=2", "ranks.servers=2", "ranks.readers=1"}} {
		k := &addingChecker{trained: map[int64]map[int64]int{}}
		model.Kinds = append(kinds[:len(kinds):len(kinds)], k.kind())
		sets = append(sets, "train.iterations=7", "train.global_batch=37")
		want := run(t, Options{}, adagrad, sets...)
		got := run(t, Options{}, adagrad, append(sets, "model.kind=adding")...)
		for _, text := range k.problems {
			t.Error(sets, text)
		}
		if got.Digest != want.Digest {
			t.Errorf("%v: digest %s, want %s", sets, got.Digest, want.Digest)
		}
		for step := int64(1); step <= 7; step++ {
			at := 0
			for slices := k.trained[step]; slices[int64(at)] > 0; {
				at += slices[int64(at)]
			}
			if at != 37 {
				t.Errorf("%v: the slices of step %d are %v", sets, step, k.trained[step])
			}
		}
		if k.scored == 0 {
			t.Errorf("%v: every batch is to be trained", sets)
		}
	}
}
