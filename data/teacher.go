package data

import (
	"math"
	"math/bits"

	"github.com/ecrec/ecrec/internal/f32"
)

// teacher is the hidden model that labels synthetic samples: logistic regression
// over the popular rows of every table and the magnitudes of the dense features.
// Rows beyond the hotRanks most popular ones have no weight, so that a model can
// learn nearly the complete teacher from a few batches.
//
// Raw scores are integers. They are scaled and shifted to log-odds of a given spread
// and base rate, by the statistics of a fixed sample of them.
type teacher struct {
	weights [][hotRanks + 1]int32 // per table and rank; the last, for all others, is 0
	dense   [criteoDense]int32    // per bit of a feature's size

	scale, bias float64
	threshold   [oddsSteps]uint64 // the label is 1 when 53 random bits are below it
}

const (
	hotRanks = 256

	baseRate   = 0.25
	oddsSpread = 1.45 // standard deviation of the log-odds: a Bayes AUC of about 0.8

	oddsLimit = 12.0 // log-odds beyond are cut
	oddsSteps = 4096 // from -oddsLimit to oddsLimit

	calibration = 4096 // samples looked at to set scale and bias
)

func newTeacher(s *synthetic, key uint64) *teacher {
	t := &teacher{weights: make([][hotRanks + 1]int32, len(s.skews))}
	for i := range t.weights {
		for r := range hotRanks {
			key += golden
			t.weights[i][r] = bell(mix(key))
		}
	}
	for j := range t.dense {
		key += golden
		t.dense[j] = bell(mix(key)) / 4
	}
	for i := range t.threshold {
		z := float64((float64(i)+0.5)*(2*oddsLimit/oddsSteps)) - oddsLimit
		t.threshold[i] = uint64(f32.Sigmoid64(z) * (1 << 53))
	}
	s.teacher = t
	t.calibrateOdds(s)
	return t
}

// bell maps random bits to a sum of four uniform numbers, near normal, of mean 0.
func bell(w uint64) int32 {
	return int32(w&0xFFFF) + int32(w>>16&0xFFFF) + int32(w>>32&0xFFFF) + int32(w>>48) - 2*0xFFFF
}

// calibrateOdds sets scale and bias from samples that Read cannot reach.
func (t *teacher) calibrateOdds(s *synthetic) {
	var raw [criteoDense]int32
	ids := make([]uint32, int(s.schema.IDsPerSample()))
	scores := make([]float64, calibration)
	sum, squares := 0.0, 0.0
	for i := range scores {
		score, _ := s.drawSample(uint64(1)<<63+uint64(i), &raw, ids)
		x := float64(score) / (1 << 16)
		scores[i] = x
		sum += x
		squares += float64(x * x)
	}
	mean := sum / calibration
	variance := squares/calibration - float64(mean*mean)
	t.scale = 1
	if variance > 0 {
		t.scale = oddsSpread / math.Sqrt(variance)
	}
	lo, hi := -64.0, 64.0 // the bias is between them, relative to the mean
	for range 40 {
		t.bias = (lo + hi) / 2
		rate := 0.0
		for _, x := range scores {
			rate += f32.Sigmoid64(float64(t.scale*(x-mean)) + t.bias)
		}
		if rate < baseRate*calibration {
			lo = t.bias
		} else {
			hi = t.bias
		}
	}
	t.bias -= float64(t.scale * mean)
	t.scale /= 1 << 16
}

// scoreDense is the dense features' part of the score.
func (t *teacher) scoreDense(x *[criteoDense]int32) int32 {
	sum := int32(0)
	for j, v := range x {
		sum += t.dense[j] * int32(bits.Len32(uint32(max(v, 0))))
	}
	return sum
}

// logOdds is the log-odds of a raw score.
func (t *teacher) logOdds(score int32) float64 { return float64(t.scale*float64(score)) + t.bias }

// drawLabel draws the label of a score from 64 random bits.
func (t *teacher) drawLabel(score int32, w uint64) uint32 {
	step := int((t.logOdds(score) + oddsLimit) * (oddsSteps / (2 * oddsLimit)))
	if w>>11 < t.threshold[min(max(step, 0), oddsSteps-1)] {
		return 1
	}
	return 0
}
