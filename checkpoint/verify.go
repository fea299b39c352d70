package checkpoint

import (
	"errors"
	"io"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/shard"
)

// Verify reads every file, checks every sum and computes the digest of the model, as the
// trainer does. It returns an error for each file that differs from the manifest. With an
// error the digest is meaningless.
func (c *Checkpoint) Verify() (digest.Sum, []error) {
	var total digest.Sum
	var bad []error
	for rank := range c.Ranks {
		sum, err := c.rowsDigest(rank)
		if err != nil {
			bad = append(bad, err)
		}
		total.Add(sum)
	}
	sum, err := c.denseDigest()
	if err != nil {
		bad = append(bad, err)
	}
	total.Add(sum)
	if _, err := c.ReadHistory(); err != nil {
		bad = append(bad, err)
	}
	if _, err := c.ReadRecipe(); err != nil {
		bad = append(bad, err)
	}
	return total, bad
}

func (c *Checkpoint) rowsDigest(rank int) (digest.Sum, error) {
	d := shard.NewDigester(c.Model.shardOptions(rank, c.Ranks))
	r, err := c.openRows(rank)
	if err != nil {
		return d.Sum, err
	}
	defer r.closeReader()
	rowBytes := c.Model.rowBytes()
	for {
		slots, rows, err := r.nextRows()
		if errors.Is(err, io.EOF) {
			return d.Sum, nil
		}
		if err != nil {
			return d.Sum, err
		}
		for i, slot := range slots {
			d.Add(int64(slot)*int64(c.Ranks)+int64(rank), rows[i*rowBytes:(i+1)*rowBytes])
		}
	}
}

func (c *Checkpoint) denseDigest() (digest.Sum, error) {
	n := c.Model.denseBytes()
	weights, state := make([]byte, n), make([]byte, c.Model.stateBytes())
	if err := c.ReadDense(c.Model, weights, state); err != nil {
		return digest.Sum{}, err
	}
	return c.Model.DigestDense(weights, state), nil
}

// DigestDense is the digest of a dense part, weights and optimizer state, of as many bytes as the model has.
func (m *Model) DigestDense(weights, state []byte) digest.Sum {
	total := digest.Of("dense state", nil, state)
	for _, s := range m.weightSpecs() {
		n, _ := s.Bytes() // checked with the manifest
		total.Add(digest.Of("dense", []byte(s.Name), weights[:n]))
		weights = weights[n:]
	}
	return total
}
