package ec

import "fmt"

// TooManyLost is the error of a stripe that has lost more shards than its code has parities.
type TooManyLost struct {
	Lost         []int // shards, ascending
	Data, Parity int
}

func (e *TooManyLost) Error() string {
	return fmt.Sprintf("ec: shards %d are lost of %d data columns and %d parities: at most %d may be", e.Lost, e.Data, e.Parity, e.Parity)
}

// Decoder reconstructs the lost shards of one erasure pattern. It is immutable.
type Decoder struct {
	// Reads are the k shards that it reads, Writes the shards that it reconstructs, both
	// ascending.
	Reads, Writes []int
	matrix        [][]byte // (len(Writes), k)
}

// Decoder returns a decoder that reconstructs the shards writes, which are some of lost. It
// does not read a lost shard. Of the others it reads the lowest: data columns before
// parities. The error is a TooManyLost if more shards are lost than there are parities.
func (c *Code) Decoder(lost, writes []int) (*Decoder, error) {
	p := pattern{lost: c.setOf(lost), writes: c.setOf(writes)}
	if d := c.decoders[p]; d != nil {
		return d, nil
	}
	missing := p.lost.shards()
	if len(missing) > c.Parity() {
		return nil, &TooManyLost{missing, c.k, c.Parity()}
	}
	d := &Decoder{Writes: p.writes.shards()}
	for shard := 0; len(d.Reads) < c.k; shard++ {
		if !p.lost.has(shard) {
			d.Reads = append(d.Reads, shard)
		}
	}
	for _, shard := range d.Writes {
		if !p.lost.has(shard) {
			panic(fmt.Sprintf("ec: shard %d cannot be reconstructed: it is not lost", shard))
		}
	}
	if len(d.Writes) > 0 {
		d.matrix = c.decodingMatrix(d.Reads, d.Writes)
	}
	c.decoders[p] = d
	return d, nil
}

// decodingMatrix is (len(writes), k): the shards that the library reconstructs if the shards
// that are read are the identity.
func (c *Code) decodingMatrix(reads, writes []int) [][]byte {
	shards, required := make([][]byte, c.k+c.Parity()), make([]bool, c.k+c.Parity())
	for i, row := range identity(c.k) {
		shards[reads[i]] = row
	}
	for _, shard := range writes {
		required[shard] = true
	}
	if err := c.library.ReconstructSome(shards, required); err != nil {
		panic(fmt.Sprintf("ec: shards %d from %d: %v", writes, reads, err))
	}
	matrix := make([][]byte, len(writes))
	for i, shard := range writes {
		matrix[i] = shards[shard]
	}
	return matrix
}

// Decode sets dst to the shards d.Writes, in that order. src is the shards d.Reads; a nil shard
// is zeros. All have one length. Package commit decodes on the device of the rows, by Factor;
// Decode is for tests and benchmarks.
func (d *Decoder) Decode(dst, src [][]byte) { multiply(dst, src, d.matrix) }

// Factor is the coefficient of the shard Reads[read] in the shard Writes[write], which is the
// sum of the products of all shards that are read.
func (d *Decoder) Factor(write, read int) byte { return d.matrix[write][read] }

// pattern is the key of a decoder.
type pattern struct{ lost, writes shardSet }

// shardSet is a set of shards, with a bit for each.
type shardSet [MaxShards / 64]uint64

func (c *Code) setOf(shards []int) (s shardSet) {
	for _, shard := range shards {
		if shard < 0 || shard >= c.k+c.Parity() {
			panic(fmt.Sprintf("ec: shard %d of %d", shard, c.k+c.Parity()))
		}
		s[shard/64] |= 1 << (shard % 64)
	}
	return s
}

func (s *shardSet) has(shard int) bool { return s[shard/64]>>(shard%64)&1 != 0 }

// shards lists the set, ascending.
func (s *shardSet) shards() (all []int) {
	for shard := range MaxShards {
		if s.has(shard) {
			all = append(all, shard)
		}
	}
	return all
}
