package ec

import "fmt"

// TooManyLost says that a stripe has lost more shards than its code has parities.
type TooManyLost struct {
	Lost         []int // shards, ascending
	Data, Parity int
}

func (e *TooManyLost) Error() string {
	return fmt.Sprintf("ec: shards %d are lost of %d data columns and %d parities: at most %d may be", e.Lost, e.Data, e.Parity, e.Parity)
}

// Decoder reconstructs shards that are lost in one pattern. It is immutable.
type Decoder struct {
	// Reads are the k shards that it needs, Wants those that it reconstructs, both
	// ascending.
	Reads, Wants []int
	matrix       [][]byte // (len(Wants), k)
}

// Decoder finds the decoder for stripes whose shards lost cannot, or shall not, be
// read, and of which those in wants are to be reconstructed. It reads the lowest
// shards that are left: data columns before parities. More lost than parities is
// TooManyLost.
func (c *Code) Decoder(lost, wants []int) (*Decoder, error) {
	p := pattern{lost: c.set(lost), wants: c.set(wants)}
	if d := c.decoders[p]; d != nil {
		return d, nil
	}
	missing := p.lost.list()
	if len(missing) > c.Parity() {
		return nil, &TooManyLost{missing, c.k, c.Parity()}
	}
	d := &Decoder{Wants: p.wants.list()}
	for shard := 0; len(d.Reads) < c.k; shard++ {
		if !p.lost.has(shard) {
			d.Reads = append(d.Reads, shard)
		}
	}
	for _, shard := range d.Wants {
		if !p.lost.has(shard) {
			panic(fmt.Sprintf("ec: shard %d is wanted, and not lost", shard))
		}
	}
	if len(d.Wants) > 0 {
		d.matrix = c.decodingMatrix(d.Reads, d.Wants)
	}
	c.decoders[p] = d
	return d, nil
}

// decodingMatrix is (len(wants), k): what the library makes of the identity in
// place of the shards read.
func (c *Code) decodingMatrix(reads, wants []int) [][]byte {
	shards, required := make([][]byte, c.k+c.Parity()), make([]bool, c.k+c.Parity())
	for i, row := range identity(c.k) {
		shards[reads[i]] = row
	}
	for _, shard := range wants {
		required[shard] = true
	}
	if err := c.library.ReconstructSome(shards, required); err != nil {
		panic(fmt.Sprintf("ec: shards %d from %d: %v", wants, reads, err))
	}
	matrix := make([][]byte, len(wants))
	for i, shard := range wants {
		matrix[i] = shards[shard]
	}
	return matrix
}

// Decode reconstructs the shards d.Wants, in that order, from the shards d.Reads,
// all of one length; what dst held is overwritten. A nil shard in src is zeros.
func (d *Decoder) Decode(dst, src [][]byte) { multiply(dst, src, d.matrix) }

// Factor is what one shard read is multiplied by in one wanted, for the numbers of both in
// Reads and Wants: a wanted shard is the sum of the products of those read.
func (d *Decoder) Factor(want, read int) byte { return d.matrix[want][read] }

// pattern is what a decoder is made for.
type pattern struct{ lost, wants shardSet }

// shardSet is a set of shards, a bit each.
type shardSet [MaxShards / 64]uint64

func (c *Code) set(shards []int) (s shardSet) {
	for _, shard := range shards {
		if shard < 0 || shard >= c.k+c.Parity() {
			panic(fmt.Sprintf("ec: shard %d of %d", shard, c.k+c.Parity()))
		}
		s[shard/64] |= 1 << (shard % 64)
	}
	return s
}

func (s *shardSet) has(shard int) bool { return s[shard/64]>>(shard%64)&1 != 0 }

// list is the shards, ascending.
func (s *shardSet) list() (shards []int) {
	for shard := range MaxShards {
		if s.has(shard) {
			shards = append(shards, shard)
		}
	}
	return shards
}
