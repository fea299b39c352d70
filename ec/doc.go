// Package ec protects rows with erasure codes: which owners code together, where
// parity lies, and the arithmetic that keeps and uses it. It is pure: no I/O, no
// goroutines, no clock, no state but cached matrices.
//
// # Terms
//
// A row is bytes: weights and optimizer state of one embedding vector, XOR those
// that its init would give. A row that was never touched is therefore zeros, and
// so is the parity of such rows. Owners are numbered as in internal/placement, and
// a slot is a place at an owner. A group is k + r consecutive owners, its members,
// that code together; the last group may be shorter, with fewer data columns.
//
// A stripe is one row of each of k members, its data columns in the order of the
// members, and r parity rows on the other r. Together they are its shards: data
// columns 0 ... k-1, then parities k ... k+r-1. Every member holds exactly one shard
// of every stripe: a data column in one of its slots, or a parity in one of its
// parity rows. Slots that an owner does not have (owners may differ by one) count
// as zeros.
//
// # Layout
//
// In a group of n owners, stripe s has parity j on member (s + j) mod n, as RAID-5
// rotates it (Patterson, Gibson, Katz, SIGMOD'88, and the placement of ECRec,
// VLDB'23), so that every member bears the same share of parity traffic. A
// member's slot i is its i-th data stripe, its parity row i its i-th parity stripe.
// All of it is arithmetic, both ways, in constant time:
//
//	Group.Stripe        (owner, slot)       -> stripe, column
//	Group.ParityStripe  (owner, parity row) -> stripe, parity
//	Group.Holder        (stripe, shard)     -> owner, slot or parity row
//	Group.Shard         (stripe, owner)     -> shard, slot or parity row
//	Group.Columns       (owner, holder)     -> the same for all slots of an owner
//
// Stripes that are equal modulo n have every shard on the same member. So slots of
// one owner that are equal modulo its data columns share their column, their
// parity holders and, when members are lost, their erasure pattern: rows of a
// batch can be chosen to lie side by side in one long shard.
//
// # Codes
//
// Codes are linear over GF(2^8), byte by byte: parity j is the sum over columns c
// of coefficient(j, c) * data c, where a sum is XOR.
//
//	none  no parity
//	xor   r = 1, all coefficients 1
//	rs    Reed-Solomon: any r of the k + r shards may be lost
//
// The coefficients of rs are a Vandermonde matrix made systematic and scaled so
// that parity 0 and column 0 have ones (Plank and Ding, "Note: Correction to the
// 1997 Tutorial on Reed-Solomon Coding", 2005; klauspost/reedsolomon builds it).
// So parity 0 is plain XOR, rs with r = 1 is xor, and k = 1 is replication, bit for
// bit.
//
// A change of one row needs no other row (ECRec's difference propagation, on bytes
// where that is on floats, which drifts):
//
//	Delta(d, old, new)             // d = old XOR new: init cancels out
//	code.Fold(parity, d, c, j)     // parity += coefficient(j, c) * d
//
// Lost shards are sums of any k others. A Decoder holds the coefficients for one
// pattern; the matrix is inverted once per pattern:
//
//	d, err := code.Decoder(lost, wants)
//	d.Decode(dst, src)             // src: the shards d.Reads, dst: those of d.Wants
//	d.Factor(want, read)           // one coefficient, where many shards are zeros
//
// All of these take shards of any length, one row or many side by side, and do not
// allocate. Lengths are bytes and must agree; what does not fit panics.
//
// # Invariants
//
// Parity equals Encode(data) as of the commit: folding every delta of an epoch, in
// any order, gives what encoding the rows at its end gives, for sums of bytes are
// exact. Shards of a stripe lie on distinct owners. No result depends on the CPU.
//
// # What it never does
//
// It knows no tables, row sizes, epochs, commits or ranks, sends nothing, stores
// no rows and no parity, and does not say when what is applied.
package ec
