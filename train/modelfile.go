package train

import (
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// chunkBytes is how much of a table moves at a time when a model is loaded or
// saved.
const chunkBytes = 4 << 20

func tableName(t int) string { return fmt.Sprintf("emb_l.%d.weight", t) }

// chunkRows is how many rows of a table move at a time.
func (r *rank) chunkRows() int64 { return int64(max(1, chunkBytes/(4*r.job.width))) }

// load sets dense parameters and rows from a safetensors file (CONFIG.md, tensor
// names); optimizer state starts as zeros. Every rank reads what it needs.
func (r *rank) load(path string) error {
	var f *safetensors.File
	if err := r.env.Do("open "+path, func() (err error) {
		f, err = safetensors.Open(path)
		return err
	}); err != nil {
		return config.Errorf("model.init_from: %w", err)
	}
	defer f.Close()
	if err := r.checkTensors(f, path); err != nil {
		return err
	}
	for _, t := range r.model.Params().Tensors {
		if err := r.loadDense(f, t); err != nil {
			return fmt.Errorf("%s: %s: %w", path, t.Name, err)
		}
	}
	for t := range r.job.schema.Tables {
		if err := r.loadTable(f, t); err != nil {
			return fmt.Errorf("%s: %s: %w", path, tableName(t), err)
		}
	}
	return nil
}

// specs lists the model's tensors as they stand in a file.
func (r *rank) specs() []safetensors.Spec {
	var specs []safetensors.Spec
	for _, t := range r.model.Params().Tensors {
		specs = append(specs, safetensors.Spec{Name: t.Name, Shape: t.Shape()})
	}
	for t, rows := range r.job.schema.Tables {
		specs = append(specs, safetensors.Spec{Name: tableName(t), Shape: []int64{rows, int64(r.job.width)}})
	}
	return specs
}

// checkTensors compares the file's tensors with the model's, names and shapes.
func (r *rank) checkTensors(f *safetensors.File, path string) error {
	specs := r.specs()
	for _, want := range specs {
		got, ok := f.Tensor(want.Name)
		if !ok {
			return config.Errorf("%s: no tensor %s, which the model of this config has", path, want.Name)
		}
		if got.Type != safetensors.F32 {
			return config.Errorf("%s: %s is %s, a model's tensors are F32", path, want.Name, got.Type)
		}
		if !slices.Equal(got.Shape, want.Shape) {
			return config.Errorf("%s: %s is %v, the model of this config has %v", path, want.Name, got.Shape, want.Shape)
		}
	}
	if n := len(f.Tensors()); n != len(specs) {
		return config.Errorf("%s: %d tensors, the model of this config has %d", path, n, len(specs))
	}
	return nil
}

func (r *rank) loadDense(f *safetensors.File, t model.Tensor) error {
	src, _ := f.Tensor(t.Name)
	b := make([]byte, 4*t.Len())
	if err := r.env.Do("read "+t.Name, func() error {
		_, err := src.ReadAt(b, 0)
		return err
	}); err != nil {
		return err
	}
	r.s.Upload(t.Of(r.model.Params().Weights), b)
	return r.s.Sync()
}

func (r *rank) loadTable(f *safetensors.File, t int) error {
	src, _ := f.Tensor(tableName(t))
	rowBytes := 4 * r.job.width
	chunk := make([]byte, r.chunkRows()*int64(rowBytes))
	var mine []byte
	var staged kernels.Buffer
	defer func() {
		if staged.Bytes() > 0 {
			r.job.dev.Free(staged)
		}
	}()
	return r.eachChunk(t, func(first, last int64) error {
		read := chunk[:(last-first)*int64(rowBytes)]
		if err := r.env.Do("read "+tableName(t), func() error {
			_, err := src.ReadAt(read, first*int64(rowBytes))
			return err
		}); err != nil {
			return err
		}
		base, owner := r.job.place.Base[t], r.job.roles.owner(r.id)
		if owner < 0 {
			return nil
		}
		from, to := r.job.place.FirstSlot(owner, base+first), r.job.place.FirstSlot(owner, base+last)
		if from == to {
			return nil
		}
		mine = mine[:0]
		for slot := from; slot < to; slot++ {
			row := r.job.place.Global(owner, slot) - base - first
			mine = append(mine, read[row*int64(rowBytes):(row+1)*int64(rowBytes)]...)
		}
		if err := kernels.Grow(r.job.dev, &staged, len(mine), kernels.Working); err != nil {
			return err
		}
		r.s.Upload(staged.Slice(0, len(mine)), mine)
		r.shard.Store(from, kernels.Mat(staged, int(to-from), r.job.width))
		return r.s.Sync()
	})
}

// eachChunk visits the rows of a table a chunk at a time.
func (r *rank) eachChunk(t int, f func(first, last int64) error) error {
	rows := r.job.schema.Tables[t]
	for first := int64(0); first < rows; first += r.chunkRows() {
		if err := f(first, min(first+r.chunkRows(), rows)); err != nil {
			return err
		}
	}
	return nil
}

// save writes the model to path: rank 0 writes, the others send it their rows.
func (r *rank) save(path string) error {
	if path == "" {
		return nil
	}
	var out *safetensors.Writer
	if r.id == 0 {
		if err := r.env.Do("create "+path, func() (err error) {
			out, err = safetensors.Create(path, r.specs())
			return err
		}); err != nil {
			return fmt.Errorf("model: %w", err)
		}
		defer out.Abort()
		if err := r.saveDense(out); err != nil {
			return err
		}
	}
	for t := range r.job.schema.Tables {
		if err := r.saveTable(out, t); err != nil {
			return err
		}
	}
	if r.id != 0 {
		return nil
	}
	return r.env.Do("commit "+path, out.Commit)
}

func (r *rank) saveDense(out *safetensors.Writer) error {
	p := r.model.Params()
	b := make([]byte, p.Weights.Bytes())
	r.s.Download(b, p.Weights)
	if err := r.s.Sync(); err != nil {
		return err
	}
	return r.env.Do("write dense", func() error {
		_, err := out.Write(b)
		return err
	})
}

// saveTable gathers a table at rank 0, chunk by chunk; out is rank 0's.
func (r *rank) saveTable(out *safetensors.Writer, t int) error {
	n, width, place := r.job.ranks, r.job.width, r.job.place
	rows := r.chunkRows()
	first, owner := r.job.roles.first, r.job.roles.owner(r.id)
	mine := make([]float32, (rows/int64(r.job.roles.rows)+1)*int64(width))
	var all, merged []float32
	if r.id == 0 {
		all, merged = make([]float32, rows*int64(width)), make([]float32, rows*int64(width))
	}
	sendBytes, recvBytes := make([]int, n), make([]int, n)
	return r.eachChunk(t, func(begin, end int64) error {
		lo, hi := place.Base[t]+begin, place.Base[t]+end
		count := 0
		if owner >= 0 {
			from := place.FirstSlot(owner, lo)
			count = int(place.FirstSlot(owner, hi) - from)
			if err := r.shard.Export(mine, from, count); err != nil {
				return err
			}
		}
		sendBytes[0] = 4 * count * width
		total := 0
		if r.id == 0 {
			for owner := range r.job.roles.rows {
				recvBytes[first+owner] = 4 * width * int(place.FirstSlot(owner, hi)-place.FirstSlot(owner, lo))
			}
			total = int(hi-lo) * width
		}
		if err := r.ctl.comm.AllToAllV(kernels.HostBuffer(all[:total]), recvBytes,
			kernels.HostBuffer(mine[:count*width]), sendBytes).Wait(); err != nil {
			return err
		}
		if r.id != 0 {
			return nil
		}
		r.merge(merged, all, lo, hi)
		return r.env.Do("write "+tableName(t), func() error {
			_, err := out.Write(kernels.BytesOf(merged[:total]))
			return err
		})
	})
}

// merge puts the global rows [lo, hi), which lie by owner in all, in row order.
func (r *rank) merge(merged, all []float32, lo, hi int64) {
	width := r.job.width
	at := 0
	for owner := range r.job.roles.rows {
		first := r.job.place.FirstSlot(owner, lo)
		last := r.job.place.FirstSlot(owner, hi)
		for slot := first; slot < last; slot++ {
			row := int(r.job.place.Global(owner, slot)-lo) * width
			copy(merged[row:row+width], all[at:at+width])
			at += width
		}
	}
}
