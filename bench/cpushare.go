package bench

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strings"

	"github.com/google/pprof/profile"
)

// cpuShare measures the share of a process's CPU time that functions of some packages take, by samples of its stacks, 100 a second.
// The speed of the machine and the time of other work change both parts by the same factor. The share leaves out the cost of the functions to others: lines
// of caches that they fill, time that they hold a lock.
type cpuShare struct {
	packages []string // import paths
	profile  bytes.Buffer
	running  bool
	shares   []float64 // in percent, one for each block with samples
}

// beginBlock starts a block. Another profile of the process may be running: then the block has no share.
func (c *cpuShare) beginBlock() {
	c.profile.Reset()
	c.running = pprof.StartCPUProfile(&c.profile) == nil
}

// endBlock ends a block. Unless it counts, its share is left out.
func (c *cpuShare) endBlock(counts bool) error {
	if !c.running {
		return nil
	}
	pprof.StopCPUProfile()
	c.running = false
	if !counts {
		return nil
	}
	p, err := profile.ParseData(c.profile.Bytes())
	if err != nil {
		return fmt.Errorf("the profile of a block: %w", err)
	}
	if own, all := c.count(p); all > 0 {
		c.shares = append(c.shares, 100*float64(own)/float64(all))
	}
	return nil
}

// count returns the CPU time of samples with a function of the packages on their stack, and that of all.
func (c *cpuShare) count(p *profile.Profile) (own, all int64) {
	for _, s := range p.Sample {
		all += s.Value[1] // samples, nanoseconds
		if c.isOwn(s) {
			own += s.Value[1]
		}
	}
	return own, all
}

func (c *cpuShare) isOwn(s *profile.Sample) bool {
	for _, l := range s.Location {
		for _, line := range l.Line {
			for _, path := range c.packages {
				if name, ok := strings.CutPrefix(line.Function.Name, path); ok && name != "" && name[0] == '.' {
					return true
				}
			}
		}
	}
	return false
}
