package transport

import "github.com/ecrec/ecrec/internal/arena"

// Place says where memory lies, to ranks that can read it there. 0 is nowhere.
type Place uint64

// Viewer is an Endpoint of a world whose ranks may read each other's memory in
// place: those of one host, where it lies in their arenas.
type Viewer interface {
	Endpoint
	viewing
}

type viewing interface {
	// Place says where p lies; 0 unless every other rank can read it. It may be called
	// at any time.
	Place(p []byte) Place
	// Enter keeps the other ranks' memory readable until Leave. It reports false
	// where a rank is gone.
	Enter() bool
	Leave()
	// View is n bytes of a rank's memory at a Place that it named, for as long as
	// the caller has entered. Nothing keeps the rank from changing or freeing them
	// meanwhile: what they then hold means nothing, but reading them does no harm.
	// It is nil where the rank has no such bytes.
	View(rank int, at Place, n int) []byte
}

// placeOf is where p lies in this process's arena.
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

// viewOwn is memory of a rank of this process.
func viewOwn(at Place, n int) []byte {
	a, err := arena.Own()
	if err != nil {
		return nil
	}
	return a.View().Bytes(int64(at), n)
}

func (ep *memEndpoint) Place(p []byte) Place               { return placeOf(p) }
func (ep *memEndpoint) Enter() bool                        { return true }
func (ep *memEndpoint) Leave()                             {}
func (ep *memEndpoint) View(_ int, at Place, n int) []byte { return viewOwn(at, n) }

func (ep *netEndpoint) Place(p []byte) Place {
	if !ep.Enter() { // what the others say of themselves is in shared memory too
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
		if l == nil || l.ring != nil && l.ring.enter() {
			continue
		}
		leave(ep.net.links[:i])
		return false
	}
	return true
}

func (ep *netEndpoint) Leave() { leave(ep.net.links) }

func leave(links []*link) {
	for _, l := range links {
		if l != nil {
			l.ring.leave()
		}
	}
}

func (ep *netEndpoint) View(rank int, at Place, n int) []byte {
	if l := ep.net.links[ep.net.process[rank]]; l != nil {
		return l.ring.view.Bytes(int64(at), n)
	}
	return viewOwn(at, n)
}
