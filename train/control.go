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
}

// wordFields is how many 64-bit fields a word takes on the wire.
const wordFields = 2

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
		c.mine[1] = 1
	}
	return c.comm.AllGather(kernels.HostBuffer(c.all), kernels.HostBuffer(c.mine))
}

func (c *control) finish(h *collectives.Handle) ([]word, error) {
	if err := h.Wait(); err != nil {
		return nil, err
	}
	for r := range c.words {
		c.words[r] = word{math.Float64frombits(c.all[wordFields*r]), c.all[wordFields*r+1] == 1}
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

// global is the mean loss of the batch and whether any rank wants to stop. Sums
// run in rank order.
func global(words []word, samples int) (loss float64, stop bool) {
	for _, w := range words {
		loss += w.loss
		stop = stop || w.stop
	}
	return loss / float64(samples), stop
}
