package train

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/train/modelfile"
)

// part is one rank's part of the model: the dense parameters with their optimizer state, and
// the rows that it owns.
type part struct {
	env   env.Env
	dev   kernels.Device
	s     kernels.Stream // computes
	shard *shard.Shard
	model model.Model
	state kernels.Buffer // optimizer state of the dense parameters
}

// open allocates the part of a rank, with its rows. C describes its model.
func (p *part) open(t *topology, id int, rows shard.Options, c model.Config) (err error) {
	if p.shard, err = shard.New(p.dev, p.s, rows); err != nil {
		return err
	}
	if p.model, err = model.New(p.dev, p.s, c); err != nil {
		return err
	}
	if n := t.denseOpt.Kind.DenseState(p.model.Params().Len()); n > 0 {
		if p.state, err = p.dev.Alloc(4*n, kernels.Working); err != nil {
			return fmt.Errorf("train: optimizer state of rank %d: %w", id, err)
		}
	}
	return nil
}

// free frees all memory, also after an error of open.
func (p *part) free() {
	if p.shard != nil {
		p.shard.Close()
	}
	if p.model != nil {
		p.model.Close()
	}
	if p.state.Bytes() > 0 {
		p.dev.Free(p.state)
	}
}

// downloadDense copies the dense part from the device.
func (p *part) downloadDense() (weights []float32, state []byte, err error) {
	params := p.model.Params()
	weights, state = make([]float32, params.Floats()), make([]byte, p.state.Bytes())
	p.s.Download(kernels.BytesOf(weights), params.Weights)
	p.s.Download(state, p.state)
	return weights, state, p.s.Sync()
}

// uploadDense sets the dense part.
func (p *part) uploadDense(weights []float32, state []byte) error {
	p.s.Upload(p.model.Params().Weights, kernels.BytesOf(weights))
	p.s.Upload(p.state, state)
	return p.s.Sync()
}

// digestDense is the digest of the dense parameters and their optimizer state after a step.
func (p *part) digestDense(step int64) (digest.Sum, error) {
	weights, state, err := p.denseBytes()
	if err != nil {
		return digest.Sum{}, err
	}
	total := digest.Of("dense state", nil, state)
	for _, t := range p.model.Params().Saved() {
		values := weights[4*t.Offset : 4*(t.Offset+t.Len())]
		if i := findInfinite(values); i >= 0 {
			return total, fmt.Errorf("step %d: %s[%d] is not a finite number: the model has diverged; lower optimizer.dense.lr", step, t.Name, i)
		}
		total.Add(digest.Of("dense", []byte(t.Name), values))
	}
	return total, nil
}

// denseBytes returns the bytes of the dense part, which are valid until it changes.
func (p *part) denseBytes() (weights, state []byte, err error) {
	if w := p.model.Params().Weights; w.OnHost() {
		return w.Host(), p.state.Host(), p.s.Sync()
	}
	values, state, err := p.downloadDense()
	return kernels.BytesOf(values), state, err
}

// findInfinite returns the index of the first float that is not finite, -1 if there is none.
func findInfinite(floats []byte) int {
	const exponent = 0x7f800000 // all ones: infinite, or not a number
	for i := 0; i < len(floats); i += 4 {
		if binary.LittleEndian.Uint32(floats[i:])&exponent == exponent {
			return i / 4
		}
	}
	return -1
}

// largestGradient finds the dense gradient with the largest magnitude, NaN if any is. The
// gradients must be reduced.
func (p *part) largestGradient() (largest float64, tensor string, err error) {
	params := p.model.Params()
	grad := make([]float32, params.Len())
	p.s.Download(kernels.BytesOf(grad), params.Grad)
	if err := p.s.Sync(); err != nil {
		return 0, "", err
	}
	for _, t := range params.Tensors {
		for _, g := range grad[t.Offset : t.Offset+t.Len()] {
			a := math.Abs(float64(g))
			if math.IsNaN(a) {
				return a, t.Name, nil
			}
			if a > largest || tensor == "" {
				largest, tensor = a, t.Name
			}
		}
	}
	return largest, tensor, nil
}

// modelFile is the part as package modelfile loads and saves it.
func (p *part) modelFile(t *topology, id int) *modelfile.Model {
	return &modelfile.Model{Env: p.env, Device: p.dev, Stream: p.s, Params: p.model.Params(), Shard: p.shard,
		Owner: t.roles.ownerOf(id), Place: t.place, Row: t.shape.Row}
}
