package bench

import (
	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/kernels"
)

// operation is a collective that is measured.
type operation struct {
	name, element string
	redop         string // nccl-tests' word for the reduction; "none": there is none
	elementBytes  int
	parts         bool // the buffer is split into one part for each rank
	inPlace       bool // the result replaces the input
	oneWay        bool // from rank 0 to the others
	// traffic is the share of the buffer that a rank must send or receive in any algorithm:
	// nccl-tests' factor of busbw.
	traffic func(ranks float64) float64
	start   func(r *collectivesRank, bytes int) *collectives.Handle
	// fill prepares a check with dst all zero. wrong counts the wrong elements of dst after
	// the operation.
	fill  func(r *collectivesRank, bytes int)
	wrong func(r *collectivesRank, bytes int) int
}

var operations = []operation{
	{
		name: "all_reduce", element: "float32", redop: "sum", elementBytes: 4, inPlace: true,
		traffic: func(n float64) float64 { return 2 * (n - 1) / n },
		start: func(r *collectivesRank, bytes int) *collectives.Handle {
			return r.comm.AllReduce(r.dst.Slice(0, bytes))
		},
		fill: func(r *collectivesRank, bytes int) {
			for i, floats := 0, kernels.HostView[float32](r.dst.Slice(0, bytes)); i < len(floats); i++ {
				floats[i] = addend(r.ep.Rank(), i)
			}
		},
		wrong: func(r *collectivesRank, bytes int) (n int) {
			for i, got := range kernels.HostView[float32](r.dst.Slice(0, bytes)) {
				var want float32
				for rank := range r.ep.Size() {
					want += addend(rank, i)
				}
				if got != want {
					n++
				}
			}
			return n
		},
	},
	{
		name: "all_to_all_v", element: "uint8", redop: "none", elementBytes: 1, parts: true,
		traffic: func(n float64) float64 { return (n - 1) / n },
		start: func(r *collectivesRank, bytes int) *collectives.Handle {
			return r.comm.AllToAllV(r.dst.Slice(0, bytes), r.counts, r.src.Slice(0, bytes), r.counts)
		},
		fill: func(r *collectivesRank, _ int) {
			for to, n := range r.counts {
				write(r.src.Host()[to*n:][:n], r.ep.Rank(), to)
			}
		},
		wrong: func(r *collectivesRank, _ int) (wrong int) {
			for from, n := range r.counts {
				wrong += differ(r.dst.Host()[from*n:][:n], from, r.ep.Rank())
			}
			return wrong
		},
	},
	{
		name: "all_gather_v", element: "uint8", redop: "none", elementBytes: 1, parts: true,
		traffic: func(n float64) float64 { return (n - 1) / n },
		start: func(r *collectivesRank, bytes int) *collectives.Handle {
			return r.comm.AllGatherV(r.dst.Slice(0, bytes), r.counts, r.src.Slice(0, r.counts[0]))
		},
		fill: func(r *collectivesRank, _ int) { write(r.src.Host()[:r.counts[0]], r.ep.Rank(), 0) },
		wrong: func(r *collectivesRank, _ int) (wrong int) {
			for from, n := range r.counts {
				wrong += differ(r.dst.Host()[from*n:][:n], from, 0)
			}
			return wrong
		},
	},
	{
		name: "broadcast", element: "uint8", redop: "none", elementBytes: 1, inPlace: true, oneWay: true,
		traffic: func(float64) float64 { return 1 },
		start: func(r *collectivesRank, bytes int) *collectives.Handle {
			return r.comm.Broadcast(r.dst.Slice(0, bytes), 0)
		},
		fill: func(r *collectivesRank, bytes int) {
			if r.ep.Rank() == 0 {
				write(r.dst.Host()[:bytes], 0, 0)
			}
		},
		wrong: func(r *collectivesRank, bytes int) int { return differ(r.dst.Host()[:bytes], 0, 0) },
	},
}

// addend returns element i of rank's addend of an all-reduce: small integers, whose sums are exact.
func addend(rank, i int) float32 { return float32((7*rank + 3*i) % 61) }

// letter returns byte i of the message from rank from to rank to.
func letter(from, to, i int) byte { return byte(31*from + 13*to + 7*i + i>>8) }

func write(b []byte, from, to int) {
	for i := range b {
		b[i] = letter(from, to, i)
	}
}

// differ counts the bytes of b that differ from the message from rank from to rank to.
func differ(b []byte, from, to int) (n int) {
	for i, x := range b {
		if x != letter(from, to, i) {
			n++
		}
	}
	return n
}
