package transporttest

import (
	"testing"
	"unsafe"

	"github.com/ecrec/ecrec/internal/arena"
	"github.com/ecrec/ecrec/transport"
)

// testViews: all ranks can read, in place, the memory for which a Viewer has a Place.
// Other memory has no Place.
func testViews(t *testing.T, w world) {
	var viewers []transport.Viewer
	for _, ep := range w.eps {
		v, ok := ep.(transport.Viewer)
		if !ok {
			t.Log("this endpoint has no Viewer")
			return
		}
		viewers = append(viewers, v)
	}
	a, err := arena.Own()
	if err != nil {
		t.Log(err)
		return
	}
	const n = 10_000
	at := make([]transport.Place, len(viewers))
	for r, v := range viewers {
		p, err := a.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Free(p)
		memory := unsafe.Slice((*byte)(p), n)
		copy(memory, pattern(r, n))
		if v.Place(make([]byte, n)) != 0 {
			t.Error("memory that is not shared has a place")
		}
		if at[r] = v.Place(memory); at[r] != 0 && !v.CanView() {
			t.Errorf("rank %d has a place, and its CanView is false", r)
		}
		if at[r] == 0 {
			t.Log("the other ranks cannot read this memory")
			return
		}
	}
	for _, v := range viewers {
		if !v.Enter() {
			t.Fatal("Enter reports that a rank is lost")
		}
		for r := range viewers {
			w.mustEqual("view of a rank's memory", v.View(r, at[r], n), pattern(r, n))
			if v.View(r, 1<<60, n) != nil {
				t.Error("View returned memory that the rank does not have")
			}
		}
		v.Leave()
	}
}

// testViewsOfTheClosed: asking for places while the endpoint is closed does no harm.
func testViewsOfTheClosed(t *testing.T, w world) {
	v, ok := w.eps[0].(transport.Viewer)
	if !ok {
		return
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for range 20_000 {
			v.Place(nil)
			if v.Enter() {
				v.Leave()
			}
		}
	}()
	for _, ep := range w.eps {
		_ = ep.Close()
	}
	<-asked
}
