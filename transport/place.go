package transport

import "github.com/ecrec/ecrec/internal/arena"

// Place is the location of memory for ranks that can read it in place. 0 means none.
type Place uint64

// Viewer is an Endpoint of a world whose ranks can read each other's memory in place.
// They are on one host and the memory is in their arenas.
type Viewer interface {
	Endpoint
	viewing
}

type viewing interface {
	// CanView reports whether Place may ever return a place in this world. All later calls
	// return the same.
	CanView() bool
	// Place returns the location of p, or 0 unless every other rank can read it. It may
	// be called at any time.
	Place(p []byte) Place
	// Enter keeps the other ranks' memory readable until Leave. It reports false if a
	// rank is lost.
	Enter() bool
	Leave()
	// View returns n bytes of a rank's memory at a Place that the rank reported. They are
	// valid between Enter and Leave. The rank may change or free them meanwhile: their
	// content is then undefined, but reading them is harmless. View returns nil if the
	// rank has no such bytes.
	View(rank int, at Place, n int) []byte
}

// placeOf returns the location of p in this process's arena.
func placeOf(p []byte) Place {
	a, err := arena.Own()
	if err != nil || len(p) == 0 {
		return 0
	}
	offset, ok := a.Offset(p)
	if !ok {
		return 0
	}
	return Place(offset)
}

// viewOwn returns memory of a rank of this process.
func viewOwn(at Place, n int) []byte {
	a, err := arena.Own()
	if err != nil {
		return nil
	}
	return a.View().Bytes(int64(at), n)
}

func (ep *memEndpoint) CanView() bool                      { return true }
func (ep *memEndpoint) Place(p []byte) Place               { return placeOf(p) }
func (ep *memEndpoint) Enter() bool                        { return true }
func (ep *memEndpoint) Leave()                             {}
func (ep *memEndpoint) View(_ int, at Place, n int) []byte { return viewOwn(at, n) }

// CanView reports whether all links have rings.
func (ep *netEndpoint) CanView() bool {
	for _, l := range ep.net.links {
		if l != nil && l.ring == nil {
			return false
		}
	}
	return true
}

func (ep *netEndpoint) Place(p []byte) Place {
	if !ep.Enter() { // the other processes' records are in shared memory too
		return 0
	}
	defer ep.Leave()
	for _, l := range ep.net.links {
		if l != nil && l.ring.other.views.Load() == 0 {
			return 0
		}
	}
	return placeOf(p)
}

func (ep *netEndpoint) Enter() bool {
	for i, l := range ep.net.links {
		if l == nil || l.ring != nil && l.ring.acquireMapping() {
			continue
		}
		leaveLinks(ep.net.links[:i])
		return false
	}
	return true
}

func (ep *netEndpoint) Leave() { leaveLinks(ep.net.links) }

func leaveLinks(links []*link) {
	for _, l := range links {
		if l != nil {
			l.ring.releaseMapping()
		}
	}
}

func (ep *netEndpoint) View(rank int, at Place, n int) []byte {
	if l := ep.net.links[ep.net.process[rank]]; l != nil {
		return l.ring.view.Bytes(int64(at), n)
	}
	return viewOwn(at, n)
}
