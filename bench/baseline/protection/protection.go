package protection

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/transport"
)

// Variant is which parts of ECRec's commit are made.
type Variant struct {
	TwoPhase bool // answers, and a second round trip
	Copies   bool // dense gradients also go to a second server
}

// Options describe the world of the sinks.
type Options struct {
	// Layout has one parity a stripe.
	Layout ec.Layout
	// Slots is the greatest number of slots of an owner.
	Slots int64
	// Endpoints are those of the ranks, in a world that only the sinks use. Close of a sink closes its endpoint.
	Endpoints []transport.Endpoint
	// Gradient returns a rank's dense gradient, in memory of the host.
	Gradient func(rank int) kernels.Buffer
	// Variant is read in each commit. The caller changes it while no rank trains.
	Variant *Variant
}

// New returns a factory of sinks. The job needs ec.code = "none" and ec.commit_every = 1.
func New(o Options) commit.SinkFactory {
	return func(of commit.SinkOptions) (commit.Sink, error) { return newSink(o, of.Rank, of.Shard), nil }
}

// Tags of the messages between two ranks.
const (
	tagCount transport.Tag = iota
	tagRows
	tagDifferences
	tagStaged
	tagCommit
	tagCommitted
	tagGradient
)

// sink is the part of one rank.
type sink struct {
	o      Options
	rank   int
	ep     transport.Endpoint
	group  ec.Group
	stride int       // floats of a row
	parity []float32 // rows of parities
	step   int64     // of the last commit

	peers   []int // the other members of the group
	out, in []differences

	rows    []byte
	places  []int32
	changes []float32 // XOR of the rows

	second, received []float32 // the sum of gradients for which this rank is the second server; those of one rank

	counts, open, gradients []transport.Request
	failed                  error
}

// differences are those of one message, by parity row of its receiver.
type differences struct {
	count [8]byte
	rows  []int32
	sums  []float32
	word  [1]byte
}

func newSink(o Options, rank int, h *shard.Shard) *sink {
	s := &sink{o: o, rank: rank, ep: o.Endpoints[rank], group: o.Layout.GroupOf(rank), stride: h.RowBytes() / 4}
	s.parity = make([]float32, s.group.ParityRows(rank, o.Slots)*int64(s.stride))
	for m := s.group.First; m < s.group.First+s.group.Size; m++ {
		if m != rank {
			s.peers = append(s.peers, m)
		}
	}
	s.out, s.in = make([]differences, len(s.peers)), make([]differences, len(s.peers))
	return s
}

// NeedsPreImages reports true: the difference is that from the row before the step.
func (s *sink) NeedsPreImages() bool { return true }

// Begin takes the rows as they are: their differences are zero.
func (s *sink) Begin(step int64, _ bool) { s.step = step }

// Wait returns at once: Seal waits for everything.
func (s *sink) Wait() error { return nil }

// Prepared is the step of the last Seal.
func (s *sink) Prepared() int64 { return s.step }

// Commit does nothing: Seal has committed.
func (s *sink) Commit(int64) {}

// Roll panics: the baseline survives no loss.
func (s *sink) Roll(int64) { panic("protection: a baseline that only measures was rolled back") }

// Close closes the endpoint.
func (s *sink) Close() { _ = s.ep.Close() }

// Seal commits the step.
func (s *sink) Seal(set *commit.Set) error {
	v := *s.o.Variant
	if v.Copies {
		s.postGradient()
	}
	if err := s.fillDifferences(set); err != nil {
		return err
	}
	if err := s.exchangeDifferences(); err != nil {
		return err
	}
	if v.TwoPhase {
		if err := s.exchangeWords(tagStaged); err != nil {
			return err
		}
		if err := s.exchangeWords(tagCommit); err != nil {
			return err
		}
	}
	for i := range s.in {
		s.addDifferences(&s.in[i])
	}
	if v.TwoPhase {
		if err := s.exchangeWords(tagCommitted); err != nil {
			return err
		}
	}
	if v.Copies {
		if err := s.addGradients(); err != nil {
			return err
		}
	}
	s.step = set.Step
	return nil
}

// fillDifferences fills the messages to the holders of the parities of a set's rows.
func (s *sink) fillDifferences(set *commit.Set) (err error) {
	for i := range s.out {
		s.out[i].rows, s.out[i].sums = s.out[i].rows[:0], s.out[i].sums[:0]
	}
	n := len(set.Slots)
	if n == 0 {
		return nil
	}
	if s.rows, err = set.Rows(s.rows[:0], set.Slots); err != nil {
		return err
	}
	for len(s.places) < n {
		s.places = append(s.places, int32(len(s.places)))
	}
	s.changes = slices.Grow(s.changes[:0], n*s.stride)[:n*s.stride]
	if err := set.Deltas.Read(kernels.Mat(kernels.HostBuffer(s.changes), n, s.stride), s.places[:n]); err != nil {
		return err
	}
	for i, slot := range set.Slots {
		stripe, _ := s.group.Stripe(s.rank, int64(slot))
		holder, row := s.group.Holder(stripe, s.group.Data())
		d := &s.out[s.peerOf(holder)]
		d.rows = append(d.rows, int32(row))
		at := i * s.stride
		for j, x := range s.changes[at : at+s.stride] {
			now := binary.LittleEndian.Uint32(s.rows[4*(at+j):])
			d.sums = append(d.sums, math.Float32frombits(now)-math.Float32frombits(now^math.Float32bits(x)))
		}
	}
	return nil
}

func (s *sink) peerOf(rank int) int {
	i := rank - s.group.First
	if rank > s.rank {
		i--
	}
	return i
}

// exchangeDifferences sends the differences and receives those of the other members.
func (s *sink) exchangeDifferences() error {
	for i, peer := range s.peers {
		s.counts = append(s.counts, s.ep.Recv(peer, tagCount, s.in[i].count[:]))
	}
	for i, peer := range s.peers {
		out := &s.out[i]
		binary.LittleEndian.PutUint64(out.count[:], uint64(len(out.rows)))
		s.post(s.ep.Send(peer, tagCount, out.count[:]))
		if len(out.rows) > 0 {
			s.post(s.ep.Send(peer, tagRows, kernels.BytesOf(out.rows)))
			s.post(s.ep.Send(peer, tagDifferences, kernels.BytesOf(out.sums)))
		}
	}
	for i, peer := range s.peers {
		in := &s.in[i]
		if err := s.counts[i].Wait(); err != nil {
			s.failed = errors.Join(s.failed, err)
			continue
		}
		n := int(binary.LittleEndian.Uint64(in.count[:]))
		in.rows, in.sums = slices.Grow(in.rows[:0], n)[:n], slices.Grow(in.sums[:0], n*s.stride)[:n*s.stride]
		if n > 0 {
			s.post(s.ep.Recv(peer, tagRows, kernels.BytesOf(in.rows)))
			s.post(s.ep.Recv(peer, tagDifferences, kernels.BytesOf(in.sums)))
		}
	}
	s.counts = s.counts[:0]
	return s.waitAll()
}

// exchangeWords exchanges a byte with each other member: half a round trip.
func (s *sink) exchangeWords(tag transport.Tag) error {
	for i, peer := range s.peers {
		s.post(s.ep.Recv(peer, tag, s.in[i].word[:]))
		s.post(s.ep.Send(peer, tag, s.out[i].word[:]))
	}
	return s.waitAll()
}

// addDifferences adds received differences to the parities.
func (s *sink) addDifferences(d *differences) {
	for i, row := range d.rows {
		to, from := s.parity[int(row)*s.stride:][:s.stride], d.sums[i*s.stride:][:s.stride]
		for j, x := range from {
			to[j] += x
		}
	}
}

// chunk is the part of a dense gradient that a rank is the second server of: the server of part c is rank c, the second one the rank after
// it.
func (s *sink) chunk(rank int, gradient kernels.Buffer) kernels.Buffer {
	ranks := len(s.o.Endpoints)
	c, n := (rank+ranks-1)%ranks, gradient.Floats()
	first, end := c*n/ranks, (c+1)*n/ranks
	return gradient.SliceFloats(first, end-first)
}

// postGradient posts the parts of this rank's gradient to their second servers, and receives those of the others.
func (s *sink) postGradient() {
	gradient := s.o.Gradient(s.rank)
	mine := s.chunk(s.rank, gradient)
	n := mine.Floats()
	if len(s.second) < n {
		s.second, s.received = make([]float32, n), make([]float32, n*len(s.o.Endpoints))
	}
	for rank := range s.o.Endpoints {
		if rank == s.rank {
			copy(kernels.BytesOf(s.received[rank*n:][:n]), mine.Host())
			continue
		}
		s.gradients = append(s.gradients, s.ep.Recv(rank, tagGradient, kernels.BytesOf(s.received[rank*n:][:n])),
			s.ep.Send(rank, tagGradient, s.chunk(rank, gradient).Host()))
	}
}

// addGradients waits for the gradients, and adds up those of this rank's part.
func (s *sink) addGradients() error {
	s.open, s.gradients = s.gradients, s.open
	if err := s.waitAll(); err != nil {
		return err
	}
	for rank := range s.o.Endpoints {
		for i, x := range s.received[rank*len(s.second):][:len(s.second)] {
			s.second[i] += x
		}
	}
	return nil
}

func (s *sink) post(r transport.Request) { s.open = append(s.open, r) }

// waitAll waits for all posted requests.
func (s *sink) waitAll() error {
	for _, r := range s.open {
		s.failed = errors.Join(s.failed, r.Wait())
	}
	s.open = s.open[:0]
	return s.failed
}
