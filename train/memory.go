package train

import (
	"runtime"

	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/shard"
)

// checkMemory refuses a job whose rows and activations cannot fit, before
// anything is allocated.
func (j *job) checkMemory() error {
	available, ok := machine.AvailableMemory()
	if !ok {
		return nil
	}
	rows, rest := j.bytes()
	if need := rows + rest; need > available {
		return config.Errorf("memory: the job needs %s (rows and optimizer state %s, activations and buffers %s), this machine has %s available; use smaller model.tables or model.embedding_dim, or a smaller train.global_batch",
			machine.Size(need), machine.Size(rows), machine.Size(rest), machine.Size(available))
	}
	return nil
}

// bytes is what all ranks take together when every row has been touched.
func (j *job) bytes() (rows, rest int64) {
	m, f := j.cfg.Model, int64(len(j.schema.Tables)+1)
	d := int64(j.width)
	perSample := 3*f*d + f*(f-1)/2 + int64(j.schema.Dense) + 4 // features, gradient, rows; dots; input
	widest := d + f*(f-1)/2
	params, in := int64(0), int64(j.schema.Dense)
	for i, mlp := range [][]int{m.BottomMLP, m.TopMLP} {
		if i == 1 {
			in = d + f*(f-1)/2
		}
		for _, out := range mlp {
			perSample += int64(out)
			params += (in + 1) * int64(out)
			widest = max(widest, int64(out))
			in = int64(out)
		}
	}
	perSample += 4 * widest // two gradients of activations in each of two chains
	for rank := range j.ranks {
		rows += shard.Bytes(shard.Options{Map: j.place, Owner: rank, Width: j.width, State: j.sparse.Kind.RowState(j.width)})
		rest += 4*perSample*int64(j.maxSlice) + 4*(3+int64(j.denseOpt.Kind.DenseState(1)))*params
	}
	return rows, rest
}

// threads is the number of compute threads of the process.
func (j *job) threads() int {
	if n := j.cfg.Job.Threads; n > 0 {
		return n
	}
	return max(1, runtime.GOMAXPROCS(0))
}
