package model

import (
	"strings"

	"github.com/ecrec/ecrec/kernels"
)

// bucketFloats is the least size of a bucket: large enough that an all-reduce is
// bound by bandwidth, small enough that most of the gradient travels during the
// backward pass.
const bucketFloats = 1 << 18

// bucketer hands out the flat gradient in ranges as layers finish, in layout
// order.
type bucketer struct {
	params      *Params
	ready       func(kernels.Buffer)
	sent, final int // floats handed out, floats computed
}

func (k *bucketer) addLayer(l *layer) {
	k.final = l.b.Offset + l.b.Len()
	if k.final-k.sent >= bucketFloats {
		k.handOut()
	}
}

func (k *bucketer) handOut() {
	if k.final > k.sent {
		k.ready(k.params.Grad.SliceFloats(k.sent, k.final-k.sent))
		k.sent = k.final
	}
}

// Buckets lists the floats of each bucket of a model with this shape, in the order in which Backward
// hands them out.
func (s Shape) Buckets() (floats []int) {
	layerOf := func(t Tensor) string { return t.Name[:strings.LastIndexByte(t.Name, '.')+1] }
	sent := 0
	for i, t := range s.Tensors {
		if i+1 < len(s.Tensors) && layerOf(t) != "" && layerOf(t) == layerOf(s.Tensors[i+1]) {
			continue // a layer is final with its last tensor
		}
		if final := t.Offset + t.Len(); final-sent >= bucketFloats {
			floats, sent = append(floats, final-sent), final
		}
	}
	if n := s.DenseParams(); n > sent {
		floats = append(floats, n-sent)
	}
	return floats
}
