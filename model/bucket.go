package model

import "github.com/ecrec/ecrec/kernels"

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
