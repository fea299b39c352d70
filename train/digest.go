package train

import (
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/kernels"
)

// digest fingerprints the model: all ranks' rows, and the dense part, which must
// be equal on all.
func (r *rank) digest() error {
	if err := r.chaos(r.done, "digest"); err != nil {
		return err
	}
	rows, err := r.shard.Digest()
	if err != nil {
		return err
	}
	dense, err := r.denseDigest()
	if err != nil {
		return err
	}
	all, err := r.ctl.gather([]uint64{rows.Hi, rows.Lo, dense.Hi, dense.Lo})
	if err != nil {
		return err
	}
	total := dense
	for i, s := range all {
		total.Add(digest.Sum{Hi: s[0], Lo: s[1]})
		if d := (digest.Sum{Hi: s[2], Lo: s[3]}); d != dense && r.job.roles.trains(i) && r.job.roles.trains(r.id) {
			panic(fmt.Sprintf("train: the dense parameters of ranks %d and %d differ (%v, %v)", r.id, i, dense, d))
		}
	}
	if r.id == 0 {
		r.job.result.Digest = total.String()
	}
	return nil
}

// denseDigest covers dense parameters and their optimizer state.
func (r *rank) denseDigest() (digest.Sum, error) {
	p := r.model.Params()
	weights, state := make([]float32, p.Len()), make([]byte, r.state.Bytes())
	r.s.Download(kernels.BytesOf(weights), p.Weights)
	r.s.Download(state, r.state)
	if err := r.s.Sync(); err != nil {
		return digest.Sum{}, err
	}
	total := digest.Of("dense state", nil, state)
	for _, t := range p.Tensors {
		values := weights[t.Offset : t.Offset+t.Len()]
		if i := slices.IndexFunc(values, func(w float32) bool { return w-w != 0 }); i >= 0 {
			return total, fmt.Errorf("step %d: %s[%d] is not a finite number: the model has diverged; lower optimizer.dense.lr", r.done, t.Name, i)
		}
		total.Add(digest.Of("dense", []byte(t.Name), kernels.BytesOf(values)))
	}
	return total, nil
}
