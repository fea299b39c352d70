package data

// Batch is one rank's slice of a global batch, in sample order. Its memory is
// reused: it is valid until it is given back to the Reader that made it.
type Batch struct {
	Step    int64 // the global step that trains it, from 1; 0 outside a Reader
	N       int   // samples here
	GlobalN int   // samples of the global batch, over all ranks; 0 outside a Reader
	// Next is the place in a topic after the step, of a source of messages: see package train/feed. Nil: samples have numbers.
	Next   []int64
	Labels []float32 // [N], 0 or 1
	Dense  []float32 // [N, Schema.Dense], row-major, log(1 + max(x, 0))
	// SampleWeights are the weights of the samples, [N], 0 or more. Nil: all are 1.
	SampleWeights []float32
	IDs           []uint32  // of each lookup, below its table's rows: by sample, feature, position in the bag
	Offsets       []int32   // [N*Schema.Features() + 1]: the lookups of cell c begin at Offsets[c]; nil: each cell has one id
	Weights       []float32 // of each lookup; nil: all are 1

	read readState
	idx  []int64 // sample indexes, kept by the Reader

	mapped, split []int64  // memory of a part
	hashes        []uint64 // of categories; see rawCodec
}

// resize makes room for n samples, keeping the memory when it suffices.
func (b *Batch) resize(n int, s *Schema) {
	b.N = n
	b.Labels = grown(b.Labels, n)
	b.Dense = grown(b.Dense, n*s.Dense)
	b.Offsets, b.Weights = nil, nil
	b.IDs = grown(b.IDs, n*s.Features())
	b.growWeights(n, s)
}

// beginBags makes room for n samples whose features are bags. The caller appends ids, and the end of
// each cell to Offsets.
func (b *Batch) beginBags(n int, s *Schema) {
	b.N = n
	b.Labels = grown(b.Labels, n)
	b.Dense = grown(b.Dense, n*s.Dense)
	b.IDs = b.IDs[:0]
	b.growWeights(n, s)
	b.Offsets = append(b.Offsets[:0], 0)
	b.Weights = b.Weights[:0]
}

// cutBags makes room for n samples with a number of ids for each feature, and sets their offsets.
func (b *Batch) cutBags(n int, s *Schema, hots []int) {
	b.beginBags(n, s)
	at := int32(0)
	for range n {
		for _, hot := range hots {
			at += int32(hot)
			b.Offsets = append(b.Offsets, at)
		}
	}
	b.IDs, b.Weights = grown(b.IDs, int(at)), nil
}

// growWeights makes room for the weights of n samples, if they have any.
func (b *Batch) growWeights(n int, s *Schema) {
	if !s.SampleWeights {
		b.SampleWeights = nil
		return
	}
	b.SampleWeights = grown(b.SampleWeights, n)
}

// eachHash calls do for each category of b, which a source of raw samples has filled.
func (b *Batch) eachHash(features int, do func(feature int, hash uint64)) {
	if b.Offsets == nil {
		for i, h := range b.hashes[:len(b.IDs)] {
			do(i%features, h)
		}
		return
	}
	for cell := range len(b.Offsets) - 1 {
		for _, h := range b.hashes[b.Offsets[cell]:b.Offsets[cell+1]] {
			do(cell%features, h)
		}
	}
}

func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
