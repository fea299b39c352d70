package train

import (
	"fmt"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// buffers hold a slice of b samples on the device, with the results for each sample. Beside
// them is the memory of the history's losses.
type buffers struct {
	dev      kernels.Device
	features kernels.Buffer // (b, dense features)
	labels   kernels.Buffer // (b)
	samples  kernels.Buffer // (b): the weights of the samples
	losses   kernels.Buffer // (b)
	dlogits  kernels.Buffer // (b, 1); probabilities in an evaluation
	offsets  kernels.Buffer // of the cells, if features are bags; grows
	weights  kernels.Buffer // of the lookups, if they have any; grows
	mean     kernels.Buffer // as model.Batch.Mean

	means      []int32        // mean, before it is uploaded
	hostLosses []float32      // losses, downloaded
	hostProbs  []float32      // probabilities, downloaded
	history    kernels.Buffer // on the host
}

// allocSamples allocates room for b samples. means is 1 for each feature whose bags are means.
func (x *buffers) allocSamples(dev kernels.Device, b, features int, means []int32) error {
	x.dev, x.hostLosses, x.hostProbs = dev, make([]float32, b), make([]float32, b)
	for _, a := range []struct {
		b      *kernels.Buffer
		floats int
	}{{&x.features, b * features}, {&x.labels, b}, {&x.samples, b}, {&x.losses, b}, {&x.dlogits, b}, {&x.mean, len(means)}} {
		if a.floats == 0 {
			continue
		}
		var err error
		if *a.b, err = dev.Alloc(4*a.floats, kernels.Working); err != nil {
			return fmt.Errorf("train: buffers for %d samples: %w", b, err)
		}
	}
	x.means = means
	return nil
}

// free frees them, also after an error of allocSamples.
func (x *buffers) free() {
	for _, b := range []kernels.Buffer{x.features, x.labels, x.samples, x.losses, x.dlogits, x.offsets, x.weights, x.mean} {
		if b.Bytes() > 0 {
			x.dev.Free(b)
		}
	}
}

// uploadBatch copies the dense features, the labels and the bags of a slice to the device.
func (x *buffers) uploadBatch(s kernels.Stream, b *data.Batch, features int) (in model.Batch, labels kernels.Buffer, err error) {
	in.Dense = kernels.Mat(x.features, b.N, features)
	labels = x.labels.SliceFloats(0, b.N)
	s.Upload(in.Dense.Buf, kernels.BytesOf(b.Dense))
	s.Upload(labels, kernels.BytesOf(b.Labels))
	return in, labels, x.uploadBags(s, b, &in)
}

// uploadWeights copies the weights of the samples of a slice to the device. The result is empty if they have none.
func (x *buffers) uploadWeights(s kernels.Stream, b *data.Batch) kernels.Buffer {
	weights := x.samples.SliceFloats(0, len(b.SampleWeights))
	if len(b.SampleWeights) > 0 {
		s.Upload(weights, kernels.BytesOf(b.SampleWeights))
	}
	return weights
}

// uploadBags copies the bags of a slice, if there are any.
func (x *buffers) uploadBags(s kernels.Stream, b *data.Batch, in *model.Batch) error {
	if b.Offsets == nil {
		return nil
	}
	for _, list := range []struct {
		to   *kernels.Buffer
		part *kernels.Buffer
		from []byte
	}{{&x.offsets, &in.Offsets, kernels.BytesOf(b.Offsets)}, {&x.weights, &in.Weights, kernels.BytesOf(b.Weights)}} {
		if err := kernels.Grow(x.dev, list.to, len(list.from), kernels.Working); err != nil {
			return fmt.Errorf("train: bags of %d samples: %w", b.N, err)
		}
		*list.part = list.to.Slice(0, len(list.from))
		s.Upload(*list.part, list.from)
	}
	if len(x.means) > 0 {
		in.Mean = x.mean
		s.Upload(in.Mean, kernels.BytesOf(x.means))
	}
	return nil
}

// sumLosses adds the losses of n samples, in sample order.
func (x *buffers) sumLosses(n int) float64 {
	total := 0.0
	for _, l := range x.hostLosses[:n] {
		total += float64(l)
	}
	return total
}
