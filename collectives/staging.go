package collectives

import (
	"runtime"

	"github.com/klauspost/cpuid/v2"

	"github.com/ecrec/ecrec/kernels"
)

// usualCoreCache is the cache of a core of a machine that does not tell.
const usualCoreCache = 1 << 20

// staging says when the additions of an in-place AllReduce copy the others' addends to
// scratch first.
//
// A line that another core's own cache holds, changed, comes from there at a third of
// the rate at which the cache that all cores share gives it (on Zen 4 10 and 30 GB/s).
// A buffer that just fits a core's cache stays there, changed, from one operation to
// the next. Scratch of half its size pushes it out: who reads next finds it in the
// shared cache, and saves more than the scratch costs. Much smaller buffers stay all
// the same, greater ones do not fit without it, and where ranks share a core their
// buffers push each other out.
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

func (s staging) pays(ranks, bytes int) bool {
	return ranks <= s.cores && s.least <= bytes && bytes <= s.most
}

// stage copies the others' addends to scratch, where that pays, and has them there.
func (a *reduction) stage(addends []kernels.Buffer) {
	c := a.c
	if c.err != nil || !stagingHere.pays(c.Size(), a.b.Bytes()) {
		return
	}
	floats := addends[c.Rank()].Floats()
	if err := a.r.reserve(c.dev, (len(addends)-1)*floats); err != nil {
		c.fail(err)
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
