package formattest

import (
	"fmt"
	"os"
	"testing"
)

// mostRead is how many bytes the reading of one sample may take: its block, which is
// checked as a unit, and some.
const mostRead = 3 << 20

// testBoundedReads checks that a sample is found without reading those before it.
func (s Suite) testBoundedReads(t *testing.T) {
	const n = 60_000
	src := s.mustOpen(t, s.write(t, s.random(n)))
	before, ok := bytesRead()
	if !ok {
		t.Skip("skipped: this system does not count the bytes that a process reads")
	}
	read(t, src, []int64{n - 1})
	if after, _ := bytesRead(); after-before > mostRead {
		t.Errorf("%d bytes are read for the last of %d samples, want at most %d", after-before, n, mostRead)
	}
}

// bytesRead is how many bytes this process has read so far.
func bytesRead() (n int64, ok bool) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, false
	}
	_, err = fmt.Sscanf(string(text), "rchar: %d", &n)
	return n, err == nil
}
