package train

import (
	"math"
	"math/bits"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/kernels"
)

// clipper scales the gradients of a step so that their global norm, the root of the sum of
// their squares, is at most a limit, as torch.nn.utils.clip_grad_norm_ does for dense and
// coalesced sparse gradients. The squares of each row and of each dense tensor are a
// kernels.SumSquares; these are added up exactly, so that neither their order nor the owners of
// rows matter.
type clipper struct {
	rank  *rank
	limit float64
	rows  bool    // the rows count, and are scaled
	scale float32 // of the step
	host  []float32
}

// clipperOf is nil if nothing is clipped.
func clipperOf(r *rank, t config.Train) *clipper {
	switch {
	case t.ClipNorm > 0:
		return &clipper{rank: r, limit: t.ClipNorm, rows: true}
	case t.ClipDense > 0:
		return &clipper{rank: r, limit: t.ClipDense}
	}
	return nil
}

// hook is lrpp.Options.Clip.
func (c *clipper) hook() func(sums kernels.Matrix) (float32, error) {
	if c == nil || !c.rows {
		return nil
	}
	return c.clipAll
}

// clipAll finds the scale of a step. sums are the gradients of this owner's rows, (rows, width).
// All ranks call it together. Trainer 0 adds the dense gradients.
func (c *clipper) clipAll(sums kernels.Matrix) (float32, error) {
	r := c.rank
	var total squares
	x, err := c.readFloats(sums.Buf, sums.Rows*sums.Cols)
	if err != nil {
		return 0, err
	}
	for i := range sums.Rows {
		total.addSum(kernels.SumSquares(x[i*sums.Cols:][:sums.Cols]))
	}
	if err := r.conns.waitReduces(); err != nil {
		return 0, err
	}
	if r.id == 0 {
		if err := c.addDense(&total); err != nil {
			return 0, err
		}
	}
	all, err := r.conns.ctl.gather(total[:])
	if err != nil {
		return 0, err
	}
	total = squares{}
	for _, part := range all {
		total.addAll(part)
	}
	c.scale = scaleOf(total.norm(), c.limit)
	return c.scale, nil
}

// denseScale is the scale of the dense gradients, which are reduced.
func (c *clipper) denseScale() (float32, error) {
	if c == nil || c.rows {
		return c.stepScale(), nil
	}
	var total squares
	if err := c.addDense(&total); err != nil {
		return 0, err
	}
	return scaleOf(total.norm(), c.limit), nil
}

// stepScale is the scale that clipAll found, 1 if nothing is clipped.
func (c *clipper) stepScale() float32 {
	if c == nil {
		return 1
	}
	return c.scale
}

// addDense adds the squares of the dense gradients.
func (c *clipper) addDense(total *squares) error {
	p := c.rank.model.Params()
	grad, err := c.readFloats(p.Grad, p.Len())
	if err != nil {
		return err
	}
	for _, t := range p.Tensors {
		total.addSum(kernels.SumSquares(grad[t.Offset:][:t.Len()]))
	}
	return nil
}

// readFloats returns n floats of a buffer, in place if the host can read them. They are valid
// until the next call.
func (c *clipper) readFloats(b kernels.Buffer, n int) ([]float32, error) {
	if n == 0 {
		return nil, nil
	}
	b = b.SliceFloats(0, n)
	if b.OnHost() {
		return kernels.HostView[float32](b), nil
	}
	if cap(c.host) < n {
		c.host = make([]float32, n+n/4)
	}
	c.rank.s.Download(kernels.BytesOf(c.host[:n]), b)
	return c.host[:n], c.rank.s.Sync()
}

// scaleOf is limit / (norm + 1e-6) as PyTorch computes it, at most 1.
func scaleOf(norm, limit float64) float32 {
	by := limit / (norm + 1e-6)
	switch {
	case by >= 1:
		return 1
	case by == 0: // the norm is infinite
		return float32(math.NaN())
	}
	return float32(by)
}

// squares is an exact sum of squares of float32 values: a number of 640 bits in units of 2^-298,
// the least square, and a count of terms that are infinite or not numbers. The lowest word is
// first.
type squares [squareWords + 1]uint64

const (
	squareWords = 10
	squareUnit  = 298
)

// addSum adds a term, which is not negative.
func (s *squares) addSum(x float64) {
	if x == 0 {
		return
	}
	fraction, exponent := math.Frexp(x) // fraction in [0.5, 1)
	if !(x <= math.MaxFloat64) {
		s[squareWords]++
		return
	}
	at := exponent - 53 + squareUnit // of the lowest bit of 53
	whole := uint64(fraction * (1 << 53))
	if at < 0 {
		whole, at = whole>>-at, 0 // these bits are 0: x is a multiple of the unit
	}
	low, high := whole<<(at%64), whole>>1>>(63-at%64)
	s.addWords(at/64, low, high)
}

// addWords adds two words at a word.
func (s *squares) addWords(at int, low, high uint64) {
	carry := uint64(0)
	s[at], carry = bits.Add64(s[at], low, 0)
	for i, word := at+1, high; i < squareWords && (word|carry) != 0; i, word = i+1, 0 {
		s[i], carry = bits.Add64(s[i], word, carry)
	}
}

// addAll adds another sum.
func (s *squares) addAll(other []uint64) {
	carry := uint64(0)
	for i := range squareWords {
		s[i], carry = bits.Add64(s[i], other[i], carry)
	}
	s[squareWords] += other[squareWords]
}

// norm is the root of the sum.
func (s *squares) norm() float64 {
	if s[squareWords] > 0 {
		return math.NaN()
	}
	total := 0.0
	for i := squareWords - 1; i >= 0; i-- {
		total = float64(total*(1<<64)) + float64(s[i])
	}
	return math.Sqrt(math.Ldexp(total, -squareUnit))
}
