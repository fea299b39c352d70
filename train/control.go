package train

import (
	"math"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/kernels"
)

// word is what each rank tells all others once per step.
type word struct {
	loss float64 // sum over the slice
	stop bool    // this rank was asked to stop
	save bool    // by rank 0's clock a checkpoint is due
	// prepared is the commit that this rank is prepared for.
	prepared int64
}

// wordFields is how many 64-bit fields a word takes on the wire.
const wordFields = 3

const (
	flagStop = 1 << iota
	flagSave
)

// control exchanges words. One exchange is under way at a time.
type control struct {
	comm  *collectives.Comm
	mine  []uint64
	all   []uint64
	words []word
}

func newControl(comm *collectives.Comm) *control {
	n := comm.Size()
	return &control{comm: comm, mine: make([]uint64, wordFields), all: make([]uint64, n*wordFields), words: make([]word, n)}
}

// start sends this rank's word; finish returns those of all ranks, in rank order.
func (c *control) start(w word) *collectives.Handle {
	c.mine[0] = math.Float64bits(w.loss)
	c.mine[1] = 0
	if w.stop {
		c.mine[1] |= flagStop
	}
	if w.save {
		c.mine[1] |= flagSave
	}
	c.mine[2] = uint64(w.prepared)
	return c.comm.AllGather(kernels.HostBuffer(c.all), kernels.HostBuffer(c.mine)).Start()
}

func (c *control) finish(h *collectives.Handle) ([]word, error) {
	if err := h.Wait(); err != nil {
		return nil, err
	}
	for r := range c.words {
		flags := c.all[wordFields*r+1]
		c.words[r] = word{math.Float64frombits(c.all[wordFields*r]), flags&flagStop != 0, flags&flagSave != 0, int64(c.all[wordFields*r+2])}
	}
	return c.words, nil
}

// gather exchanges a short list of words of 64 bits per rank, in rank order.
func (c *control) gather(mine []uint64) ([][]uint64, error) {
	n := c.comm.Size()
	all := make([]uint64, n*len(mine))
	if err := c.comm.AllGather(kernels.HostBuffer(all), kernels.HostBuffer(mine)).Wait(); err != nil {
		return nil, err
	}
	lists := make([][]uint64, n)
	for r := range lists {
		lists[r] = all[r*len(mine) : (r+1)*len(mine)]
	}
	return lists, nil
}

// decision is what all ranks do after a step: it follows from all words.
type decision struct {
	loss       float64 // mean over the global batch
	stop, save bool
}

// decide combines the words. Sums run in rank order.
func decide(words []word, samples int) (d decision) {
	for _, w := range words {
		d.loss += w.loss
		d.stop = d.stop || w.stop
		d.save = d.save || w.save
	}
	d.loss /= float64(samples)
	return d
}
