package transport

import (
	"os"
	"testing"
)

// Both sides of a segment wake each other and themselves. A byte that is sent before the other side sleeps is not lost, a side
// that is not listening is no obstacle, and one that has ended is none either.
func TestBells(t *testing.T) {
	maker, name, closeSpare, err := createSegment(1)
	if err != nil {
		t.Skipf("needs shared memory: %v", err)
	}
	defer maker.closeSegment()
	opener, err := openSegment(name)
	closeSpare()
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []struct {
		sleeper *segment
		fd      int
	}{{maker, maker.here}, {maker, opener.there}, {opener, opener.here}, {opener, maker.there}} {
		wake(by.fd)
		if err := by.sleeper.sleep(); err != nil {
			t.Fatal(err)
		}
		slept := make(chan error)
		go func() { slept <- by.sleeper.sleep() }()
		wake(by.fd)
		if err := <-slept; err != nil {
			t.Fatal(err)
		}
	}
	for range 1 << 17 { // more than a pipe holds
		wake(maker.there)
	}
	opener.closeSegment()
	wake(maker.there)
}

// A segment whose process has closed its files is not opened, and nothing of it stays open.
func TestBellsOfAnEndedProcess(t *testing.T) {
	maker, name, closeSpare, err := createSegment(1)
	if err != nil {
		t.Skipf("needs shared memory: %v", err)
	}
	defer maker.closeSegment()
	defer closeSpare()
	before := openFiles(t)
	name.reads = 1 << 20 // no file has that number
	if g, err := openSegment(name); err == nil {
		g.closeSegment()
		t.Fatal("a segment without its pipes was opened")
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d files are open, %d were", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
