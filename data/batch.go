package data

// Batch is one rank's slice of a global batch, in sample order. Its memory is
// reused: it is valid until it is given back to the Reader that made it.
type Batch struct {
	Step    int64     // the global step that trains it, from 1; 0 outside a Reader
	N       int       // samples here
	GlobalN int       // samples in the whole global batch; 0 outside a Reader
	Labels  []float32 // [N], 0 or 1
	Dense   []float32 // [N, Schema.Dense], row-major, log(1 + max(x, 0))
	IDs     []uint32  // [N, len(Schema.Tables)], row-major, each below its table's rows

	read readState
	idx  []int64 // sample indexes, kept by the Reader
}

// resize makes room for n samples, keeping the memory when it suffices.
func (b *Batch) resize(n int, s *Schema) {
	b.N = n
	b.Labels = grown(b.Labels, n)
	b.Dense = grown(b.Dense, n*s.Dense)
	b.IDs = grown(b.IDs, n*len(s.Tables))
}

func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
