package train

import (
	"fmt"
	"math"

	"github.com/ecrec/ecrec/data"
)

// Bounds on the samples that warnOfData reads.
const (
	warnedSamples = 16_384
	warnedBatches = 8
	leastLabels   = 256 // fewer labels may be equal by chance
)

// warnOfData warns of settings that lose information of columns, and of batches that begin with one label
// only. Rank 0 calls it when a run begins. An error is not reported: training meets it again.
func (j *job) warnOfData() {
	o := j.dataOptions(false)
	o.Progress = nil
	if text := j.o.Recipe.WarningOfRare(o.MinCount); text != "" {
		j.o.Observer.Warned(text)
	}
	if stats, err := data.DescribeColumns(o, warnedSamples); err == nil && stats != nil {
		for _, line := range j.o.Recipe.Warnings(stats, min(warnedSamples, j.train.Len())) {
			j.o.Observer.Warned(line)
		}
	}
	if text := j.oneLabel(); text != "" {
		j.o.Observer.Warned(text)
	}
}

// oneLabel describes that the first batches have one label only; else it returns "".
func (j *job) oneLabel() string {
	if j.train.Len() == math.MaxInt64 {
		return "" // it is made, not read
	}
	var b data.Batch
	var idx []int64
	ones, samples, step := 0, 0, int64(0)
	for step < min(warnedBatches, j.steps) && samples < warnedSamples {
		step++
		idx = j.order.Slice(step, 0, 1, idx)
		if j.train.Read(&b, idx) != nil {
			return ""
		}
		for _, y := range b.Labels {
			if y != 0 {
				ones++
			}
		}
		samples += b.N
	}
	if samples < leastLabels || ones > 0 && ones < samples {
		return ""
	}
	label := min(ones, 1)
	return fmt.Sprintf("data.train: all %d samples of the first %d batches have the label %d; if the rows are sorted, shuffle the file or set data.shuffle = \"block\"",
		samples, step, label)
}
