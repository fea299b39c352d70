package collectives

// Barrier ends on each rank after all ranks have started it.
//
// Dissemination (Hensgen, Finkel and Manber, 1988): in step k a rank sends a message to
// rank + 2^k and receives one from rank - 2^k. The message confirms that the sender has
// started, and every rank whose messages have reached it.
//
//	steps  ceil(log2 n)
//	bytes  none: ceil(log2 n) empty messages per rank
func (c *Comm) Barrier() *Handle { return c.newHandle(op{what: "Barrier", run: (*Comm).runBarrier}) }

func (c *Comm) runBarrier(*op) {
	n, rank := c.Size(), c.Rank()
	for d := 1; d < n && c.err == nil; d *= 2 {
		c.addRequest(c.ep.Recv((rank-d+n)%n, c.base|tagData, nil))
		c.addRequest(c.ep.Send((rank+d)%n, c.base|tagData, nil))
		c.waitAll()
	}
}
