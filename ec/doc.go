// Package ec protects rows with erasure codes: the groups of owners that are coded together,
// the places of parities, and the arithmetic that updates parities and decodes rows. It is
// pure: no I/O, no goroutines, no clock, and no state except cached matrices.
//
// # Terms
//
// A row is bytes: weights and optimizer state of one embedding vector, XOR its init. A row that
// was never touched is zeros, and so is the parity of such rows. Owners are numbered as in
// internal/placement, and a slot is the place of a row at its owner. A group is k + r
// consecutive owners, its members, which are coded together. The last group may be shorter, with
// fewer data columns.
//
// A stripe is one row of each of k members, its data columns in the order of the members, and r
// parity rows on the other members. Together they are its shards: data columns 0 ... k-1, then
// parities k ... k+r-1. Every member holds exactly one shard of every stripe: a data column in
// one of its slots, or a parity in one of its parity rows. The number of slots may differ by one
// between owners; slots that an owner does not have count as zeros.
//
// # Layout
//
// In a group of n owners, stripe s has parity j on member (s + j) mod n, as RAID-5
// rotates it (Patterson, Gibson, Katz, SIGMOD'88, and the placement of ECRec,
// VLDB'23), so that every member has the same share of parity traffic. A
// member's slot i is its i-th data stripe, its parity row i its i-th parity stripe.
// Each place is computed in constant time, both ways:
//
//	Group.Stripe        (owner, slot)       -> stripe, column
//	Group.ParityStripe  (owner, parity row) -> stripe, parity
//	Group.Holder        (stripe, shard)     -> owner, slot or parity row
//	Group.Shard         (stripe, owner)     -> shard, slot or parity row
//	Group.Columns       (owner, holder)     -> columns, for all slots of an owner
//	Group.Series        (owner)             -> shards, for all stripes
//
// Stripes that are equal modulo n have each shard on the same member. So slots of one owner that
// are equal modulo its data columns share their column and their parity holders. When members
// are lost, they share their erasure pattern: the rows of a batch can be decoded together, as
// one long shard.
//
// # Codes
//
// Codes are linear over GF(2^8), byte by byte: parity j is the sum over columns c of
// coefficient(j, c) * data c. A sum is XOR.
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
// A change of one row needs no other row. This is ECRec's difference propagation, on bytes: on
// floats, as in the paper, parities drift.
//
//	Delta(d, old, new)             // d = old XOR new: the init cancels out
//	code.Fold(parity, d, c, j)     // parity += coefficient(j, c) * d
//
// A lost shard is a sum of products of any k others. A Decoder holds the coefficients for one
// erasure pattern, and the matrix is inverted once per pattern:
//
//	d, err := code.Decoder(lost, writes)
//	d.Decode(dst, src)             // src: the shards d.Reads, dst: the shards d.Writes
//	d.Factor(write, read)          // one coefficient, if many shards are zeros
//
// Shards may have any length, one row or many, and none of these calls allocates. Lengths are in
// bytes and must be equal, else the call panics.
//
// # Invariants
//
// Parity equals Encode(data) as of the commit. Folding every delta of an epoch, in any order,
// gives the encoding of the rows at its end, since sums of bytes are exact. The shards of a
// stripe are on distinct owners. No result depends on the CPU.
//
// # Never
//
// The package has no notion of tables, row sizes, epochs, commits or ranks. It sends nothing,
// stores no rows and no parities, and does not decide when a delta is folded.
package ec
