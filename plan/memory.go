package plan

import "encoding/json"

// Part is a part of the memory of a process.
type Part int

// The parts of the memory of a process with one rank.
const (
	RowWeights   Part = iota
	RowState          // optimizer state of rows, and a bit for each row
	Parities          // of other ranks' rows
	PreImages         // of the rows that epochs change
	StagedDeltas      // sent to and received from other ranks
	LogCopies         // of the rows that epochs change, for logs and topics
	RowIndex          // the places of rows and parities in memory, or of rows on the disk
	RowCache          // of cache.mode lrpp
	SaveAside         // rows that change while a checkpoint is saved, at most
	DenseState        // weights, gradients and optimizer state of the dense part
	Snapshots         // of the dense part
	Activations       // of the forward and the backward pass
	Prepared          // batches and plans of the next steps
	Buffers           // of the exchanges of rows and of the all-reduce
	Links             // rings of shared memory, connections
	Process           // the program, its stacks, its supervisor
	Parts
)

var partNames = [Parts]string{"rows", "state of rows", "parities", "pre-images", "deltas", "copies for logs", "index of rows", "cache of rows",
	"rows aside for a save", "dense part", "snapshots", "activations", "batches and plans", "exchange buffers", "links", "process"}

func (p Part) String() string { return partNames[p] }

// Memory is the bytes of each part.
type Memory [Parts]float64

// MarshalJSON writes the bytes by the names of the parts.
func (m Memory) MarshalJSON() ([]byte, error) {
	named := map[string]float64{}
	for p := range Parts {
		named[p.String()] = m[p]
	}
	return json.Marshal(named)
}

// Sum is the bytes of all parts.
func (m *Memory) Sum() (bytes float64) {
	for _, b := range m {
		bytes += b
	}
	return bytes
}

// Sizes are those of a job that its buffers depend on, beside Job.
type Sizes struct {
	Dense   int     // features
	Ahead   int     // batches that are planned or trained at a time
	Epochs  int     // epochs that have memory at a time
	Copies  int     // epochs that have copies for logs at a time
	Heap    float64 // memory of the Go heap for each byte in use
	Changed bool    // pre-images are kept
}

// Spare memory of buffers: each grows by a quarter beyond its need, a list of pre-images by half.
const (
	spareOfBuffers  = 1.25
	spareOfJournals = 1.5
)

// AddCounted adds the parts that depend on the rows of a step, for a rank with the given counts per
// step (Mean), and samples in its slice.
func (m *Memory) AddCounted(j *Job, s Sizes, r *RankMean, samples int) {
	row, stride := float64(4*j.Width), float64(4*j.Stride)
	rows := 2*r.Rows + r.Rows // of this step and the next, and the sums of gradients
	rows += r.Served + r.Summed
	m[Buffers] += spareOfBuffers * (row*rows + 4*(r.Lookups+r.Updated+r.Summed))
	batch := float64(4*samples*(1+s.Dense)) + 4*r.Lookups
	lists := 8*r.Lookups + 8*r.Rows + 8*r.Served + 8*r.Updated
	if j.Split { // the lists of rows early and late, of gradients now and later
		lists += 8*r.Lookups + 9*r.Rows + 9*r.Served + 13*r.Updated
	}
	filler := 6 * r.Lookups // memory that is needed only while a plan is filled
	m[Prepared] += s.Heap * (float64(s.Ahead+1)*batch + float64(s.Ahead)*lists + filler)
	if s.Changed {
		m[PreImages] += spareOfJournals * float64(s.Epochs) * r.Changed * (stride + 4)
	}
	if j.Coded {
		parities := float64(j.Layout.Parity)
		m[StagedDeltas] += spareOfBuffers * (stride + 8) * (parities*r.Changed + 2*r.Folded)
	}
	m[LogCopies] += float64(s.Copies) * r.Changed * stride
}
