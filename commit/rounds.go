package commit

import (
	"slices"

	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
)

// Rounds is Round with as many rounds as limit takes. All ranks call it with the same limit.
func (p *Parity) Rounds(first []int32, limit int64) error {
	most := p.roundShards()
	if err := p.Round(first, int(min(limit, most))); err != nil {
		return err
	}
	for limit -= most; limit > 0; limit -= most {
		if err := p.Round(nil, int(min(limit, most))); err != nil {
			return err
		}
	}
	return nil
}

// RebuildAll rebuilds everything that any rank has lost. All ranks call it together.
func (p *Parity) RebuildAll() error {
	comm := p.rounds.comm
	all, most := make([]uint64, comm.Size()), uint64(p.roundShards())
	for {
		if err := comm.AllGather(kernels.HostBuffer(all), kernels.HostBuffer([]uint64{uint64(p.Left().Rows +
			p.Left().Parities)})).Wait(); err != nil {
			return err
		}
		left := slices.Max(all)
		if left == 0 {
			return nil
		}
		for range (left + most - 1) / most { // a round rebuilds as many as it can
			if err := p.o.Reach.reachPoint(p.committed, probe.Round); err != nil {
				return err
			}
			if err := p.Round(nil, int(most)); err != nil {
				return err
			}
		}
	}
}

// roundBytes is the bytes of the shards that a rank requests in a round.
const roundBytes = 1 << 20

// roundShards is how many shards a rank requests in a round.
func (p *Parity) roundShards() int64 { return max(1, int64(roundBytes/p.o.Shard.RowBytes())) }
