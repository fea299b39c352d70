package blockcopy

import (
	"sync/atomic"

	"github.com/klauspost/cpuid/v2"
	"golang.org/x/sys/cpu"
)

const (
	// least is how long a block must be for anything but ordinary stores to pay for
	// its start.
	least = 4 << 10
	// minStreamed is how much must lie around a copy that goes past all caches, however
	// small they are.
	minStreamed = 8 << 20
	// usualCache is the last cache of a machine that does not tell.
	usualCache = 32 << 20
)

var (
	fastStrings   = cpu.X86.HasERMS
	leastStreamed = streamedFrom(cpuid.CPU.Cache.L3)
)

// streamedFrom is how much must lie around a copy that goes past the last cache: what
// nearly fills it.
func streamedFrom(cache int) int {
	if cache <= 0 {
		cache = usualCache
	}
	return max(cache/8*7, minStreamed)
}

// ranks share the last cache, as far as Share was told.
var ranks atomic.Int32

func init() { Share(2) }

// Share tells how many ranks share the last cache. It may be called at any time, and
// changes nothing but speed.
func Share(n int) { ranks.Store(int32(max(n, 2))) }

// around is how many bytes lie around a copy of n bytes that each of the ranks makes
// from each of the others at about the same time: what they read and what they write.
func around(n, ranks int) int { return 2 * n * ranks * (ranks - 1) }

// Copy copies src to dst, which is at least as long and lies elsewhere: a block of a
// copy of so many bytes in all, such as all ranks make from each other.
//
// What fits the last cache, with all that lies around it, is copied by the CPU's string
// instruction, where that is meant for it: it writes whole cache lines without reading
// them first, which counts where src lies in another core's cache and dst pushes on what
// this one holds. What would not fit is written past all caches, which saves reading
// dst, and the caches' content: 4 ranks on 2 cores exchange 8 MiB each in 1.6 ms so, and
// in 2.4 ms by ordinary stores.
func Copy(dst, src []byte, all int) {
	dst = dst[:len(src)]
	switch {
	case len(src) < least:
		copy(dst, src)
	case around(all, int(ranks.Load())) >= leastStreamed:
		stream(dst, src)
	case fastStrings:
		move(dst, src)
	default:
		copy(dst, src)
	}
}
