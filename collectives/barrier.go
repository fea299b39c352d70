package collectives

// Barrier ends on each rank after all ranks have started it.
//
// Dissemination (Hensgen, Finkel and Manber, 1988): in step k a rank tells rank
// + 2^k that it, and all it has heard of, are there, and hears from rank - 2^k.
//
//	steps  ceil(log2 n)
//	bytes  none: ceil(log2 n) empty messages per rank
func (c *Comm) Barrier() *Handle { return c.operation(op{what: "Barrier", run: (*Comm).runBarrier}) }

func (c *Comm) runBarrier(*op) {
	n, rank := c.Size(), c.Rank()
	for d := 1; d < n && c.err == nil; d *= 2 {
		c.add(c.ep.Recv((rank-d+n)%n, c.base|tagData, nil))
		c.add(c.ep.Send((rank+d)%n, c.base|tagData, nil))
		c.waitAll()
	}
}
