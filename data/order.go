package data

import "github.com/ecrec/ecrec/internal/rng"

// shuffleBlock is the number of consecutive samples that a shuffle keeps together.
const shuffleBlock = 4096

// maxShuffled is the largest number of samples that a shuffle can address; more
// (which only synthetic data has) stay in order.
const maxShuffled = 1 << 59

// Order assigns samples to steps, as a pure function of (order, step). An epoch has
// every sample once. Its last batch may be smaller.
//
// Shuffle permutes the blocks of shuffleBlock samples, and the samples within
// each, differently in every epoch. The place of the last, smaller block is random. No
// permutation is stored: any position is found in O(1).
type Order struct {
	Samples int64 // in one epoch, at least 1
	Batch   int   // samples in a global batch, at least 1
	Shuffle bool  // data.shuffle = "block"
	Seed    uint64
}

// StepsPerEpoch is the number of batches in one pass.
func (o Order) StepsPerEpoch() int64 { return (o.Samples-1)/int64(o.Batch) + 1 }

// locateStep returns the epoch of a step, from 0, its first position in that epoch
// and the size of its batch.
func (o Order) locateStep(step int64) (epoch, pos int64, size int) {
	if step < 1 {
		panic("data: steps count from 1")
	}
	perEpoch := o.StepsPerEpoch()
	epoch = (step - 1) / perEpoch
	pos = (step - 1) % perEpoch * int64(o.Batch)
	return epoch, pos, int(min(int64(o.Batch), o.Samples-pos))
}

// BatchSize is the number of samples in the global batch of a step.
func (o Order) BatchSize(step int64) int {
	_, _, size := o.locateStep(step)
	return size
}

// SliceStart is the position in a global batch of b samples where the slice of trainer i of n
// begins.
func SliceStart(b, i, n int) int64 { return int64(b) * int64(i) / int64(n) }

// Slice sets dst to the sample indexes of trainer i of n in a step's global
// batch of b samples: positions i*b/n to (i+1)*b/n. It reuses dst's memory.
func (o Order) Slice(step int64, i, n int, dst []int64) []int64 {
	epoch, pos, size := o.locateStep(step)
	first := pos + SliceStart(size, i, n)
	last := pos + SliceStart(size, i+1, n)
	dst = dst[:0]
	if !o.Shuffle || o.Samples > maxShuffled {
		for p := first; p < last; p++ {
			dst = append(dst, p)
		}
		return dst
	}
	return o.shuffledIndex(epoch, first, last, dst)
}

// shuffledIndex appends the samples at positions [first, last) of an epoch.
func (o Order) shuffledIndex(epoch, first, last int64, dst []int64) []int64 {
	full := o.Samples / shuffleBlock      // full blocks
	tail := o.Samples - full*shuffleBlock // samples of the last, smaller one
	blocks := newPermutation(full, o.epochKey(epoch, 1<<48-1))
	where := o.epochKey(epoch, 1<<48-2)
	tailAt := int64(where % uint64(full+1)) // full blocks before the smaller one
	for p := first; p < last; {
		// The block at p, its size, and the position where it begins.
		block, size, start := full, tail, tailAt*shuffleBlock
		if q := p; q < start || q >= start+tail {
			if q >= start {
				q -= tail
			}
			k := q / shuffleBlock
			block, size = int64(blocks.mapIndex(uint64(k))), shuffleBlock
			start = p - q%shuffleBlock
		}
		within := newPermutation(size, o.epochKey(epoch, uint64(block)))
		for end := min(last, start+size); p < end; p++ {
			dst = append(dst, block*shuffleBlock+int64(within.mapIndex(uint64(p-start))))
		}
	}
	return dst
}

// epochKey is the random key of item b of an epoch's shuffle.
func (o Order) epochKey(epoch int64, b uint64) uint64 {
	d := rng.Draw(o.Seed, rng.Shuffle, uint32(epoch), b, 0)
	return uint64(d[1])<<32 | uint64(d[0])
}
