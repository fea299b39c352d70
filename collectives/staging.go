package collectives

import (
	"runtime"

	"github.com/klauspost/cpuid/v2"

	"github.com/ecrec/ecrec/kernels"
)

// usualCoreCache is the assumed L2 cache of a core if the CPU does not report it.
const usualCoreCache = 1 << 20

// staging decides when the additions of an in-place AllReduce first copy the other ranks'
// addends to scratch memory.
//
// A cache line that another core's private cache holds modified is read at a third of the
// rate of the shared cache (10 against 30 GB/s on Zen 4). A buffer that just fits a
// core's cache stays there, modified, from one operation to the next. Scratch memory of
// half its size evicts it to the shared cache. The next reader then finds it there, which
// saves more than the copy costs. Much smaller buffers stay in any case, and larger ones
// do not fit even without scratch memory. If ranks share a core, their buffers evict each
// other.
type staging struct {
	least, most int // bytes of the buffer
	cores       int
}

var stagingHere = stagingFor(cpuid.CPU.Cache.L2, runtime.NumCPU())

func stagingFor(coreCache, cores int) staging {
	if coreCache <= 0 {
		coreCache = usualCoreCache
	}
	return staging{least: coreCache / 2, most: coreCache + coreCache/4, cores: cores}
}

func (s staging) paysOff(ranks, bytes int) bool {
	return ranks <= s.cores && s.least <= bytes && bytes <= s.most
}

// stageAddends copies the other ranks' addends to scratch memory if that pays off, and
// replaces them in addends.
func (a *reduction) stageAddends(addends []kernels.Buffer) {
	c := a.c
	if c.err != nil || !stagingHere.paysOff(c.Size(), a.b.Bytes()) {
		return
	}
	floats := addends[c.Rank()].Floats()
	if err := a.r.reserveStaged(c.dev, (len(addends)-1)*floats); err != nil {
		c.failWith(err)
		return
	}
	at := 0
	for from := range addends {
		if from == c.Rank() {
			continue
		}
		copied := a.r.staged.SliceFloats(at, floats)
		c.stream.Copy(copied, addends[from])
		addends[from] = copied
		at += floats
	}
}
