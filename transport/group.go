package transport

import "slices"

// Group returns the endpoint of ep's rank in a group of ranks of ep's world, numbered in
// the order given. This rank must be one of them. The group shares ep's tags. Abort and
// Close are ep's.
func Group(ep Endpoint, ranks []int) Endpoint {
	if len(ranks) == ep.Size() {
		return ep
	}
	me := slices.Index(ranks, ep.Rank())
	if me < 0 {
		panic("transport: the rank is not a member of its group")
	}
	g := &group{Endpoint: ep, ranks: ranks, me: me}
	if v, ok := ep.(Viewer); ok {
		return struct {
			*group
			viewing
		}{g, groupViews{v, ranks}}
	}
	return g
}

type group struct {
	Endpoint
	ranks []int
	me    int
}

func (g *group) Rank() int { return g.me }
func (g *group) Size() int { return len(g.ranks) }

func (g *group) Send(to int, tag Tag, p []byte) Request {
	return g.Endpoint.Send(g.ranks[to], tag, p)
}

func (g *group) Recv(from int, tag Tag, p []byte) Request {
	return g.Endpoint.Recv(g.ranks[from], tag, p)
}

// groupViews numbers the ranks of a world as a group does. They can read each other's
// memory if all ranks of the world can.
type groupViews struct {
	viewing
	ranks []int
}

func (g groupViews) View(rank int, at Place, n int) []byte {
	return g.viewing.View(g.ranks[rank], at, n)
}
