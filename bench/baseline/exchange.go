package baseline

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/train"
)

// Exchange carries out one rank's part of a program, in the step loop of package train. Steps must be those of the program, from its
// first one, planned as those of cache mode "none".
type Exchange struct {
	train.Exchange // of the job: Peek, Expect
	o              Options
	rank, width    int
	step           int // steps begun
	critical       channel
	background     channel
	worker         worker
	store          kernels.Matrix

	rows, sums, copied, index, lists [2]kernels.Buffer // the first of each is that of the part, the second that of copies
	ones                             []int32           // 0, 1, 2 ...
	at                               []int32           // of each item: its row of the step's matrix
	start, pos                       []int32           // of the sums of a step
	moved                            lrpp.Moved
}

// Options make an Exchange.
type Options struct {
	Env     env.Env
	Device  kernels.Device
	Stream  kernels.Stream // of Shard
	Shard   *shard.Shard
	Base    train.Exchange
	Program *Program
	// Critical carries the rows that the training goroutine waits for, Background the rows that move while a step computes.
	Critical, Background *collectives.Comm
	// Parse is the time that a sample takes to be read and parsed before the step that trains it.
	Parse time.Duration
	// Features is the number of ids of a sample.
	Features int
}

// channel is a communicator, with the memory that its one user needs.
type channel struct {
	comm         *collectives.Comm
	stream       kernels.Stream
	shard        *shard.Shard
	sends, lands kernels.Buffer
	index        kernels.Buffer
	send, recv   []int // bytes
}

// errState is the error of rows with optimizer state.
var errState = errors.New("baseline: rows have optimizer state, which baselines do not move; set optimizer.sparse.kind = \"sgd\"")

// New returns the exchange of a rank.
func New(o Options) (*Exchange, error) {
	if o.Shard.RowBytes() != 4*o.Shard.Width() {
		return nil, errState
	}
	x := &Exchange{Exchange: o.Base, o: o, rank: o.Critical.Rank(), width: o.Shard.Width()}
	n := o.Program.Ranks
	x.critical = channel{comm: o.Critical, stream: o.Stream, shard: o.Shard, send: make([]int, n), recv: make([]int, n)}
	s := o.Device.Stream(1)
	x.background = channel{comm: o.Background, stream: s, shard: o.Shard.On(s), send: make([]int, n), recv: make([]int, n)}
	x.store = kernels.Matrix{Cols: x.width, Stride: x.width}
	if rows := o.Program.StoreRows; rows > 0 {
		b, err := o.Device.Alloc(4*x.width*rows, kernels.Sparse)
		if err != nil {
			return nil, fmt.Errorf("baseline: a store of %d rows: %w", rows, err)
		}
		x.store = kernels.Mat(b, rows, x.width)
	}
	x.worker = startWorker(o.Env)
	return x, nil
}

// Close frees the exchange, when its job beside the step has ended. After a failed step that job ends when the ranks that it waits for
// have done their part, or have left.
func (x *Exchange) Close() {
	x.worker.stopWorker()
	x.background.shard.Close()
	x.background.stream.Close()
	for _, b := range slices.Concat(x.rows[:], x.sums[:], x.copied[:], x.index[:], x.lists[:], []kernels.Buffer{x.store.Buf},
		x.critical.allBuffers(), x.background.allBuffers()) {
		if b.Bytes() > 0 {
			x.o.Device.Free(b)
		}
	}
}

func (c *channel) allBuffers() []kernels.Buffer { return []kernels.Buffer{c.sends, c.lands, c.index} }

// planOf is this rank's part of step i, counted from 0; nil beyond the last.
func (x *Exchange) planOf(i int) *Step {
	if i >= len(x.o.Program.Steps) {
		return nil
	}
	return &x.o.Program.Steps[i][x.rank]
}

// Begin returns the rows of a step.
func (x *Exchange) Begin(st, _ *lrpp.Step) (rows kernels.Matrix, index kernels.Buffer, err error) {
	now := x.planOf(x.step)
	if now == nil {
		return rows, index, fmt.Errorf("baseline: the program has %d steps", x.step)
	}
	if x.o.Parse > 0 {
		x.o.Env.Sleep(x.o.Parse * time.Duration(len(st.Plan.Index)/x.o.Features))
	}
	err = x.worker.waitJob()
	if err == nil && (x.step == 0 || x.o.Program.Inline) {
		err = x.moveAround(nil, now)
	}
	if err != nil {
		return rows, index, err
	}
	if rows, err = x.fetchItems(now); err != nil {
		return rows, index, err
	}
	if index, err = x.indexOf(st, now); err != nil {
		return rows, index, err
	}
	x.moved = x.o.Program.Moved(x.step, x.rank, x.width)
	x.step++
	before, next := x.planBefore(), x.planOf(x.step)
	if !x.o.Program.Inline {
		x.worker.startJob(func() error { return x.moveAround(before, next) })
	}
	return rows, index, nil
}

// planBefore is the plan of the last step that has ended.
func (x *Exchange) planBefore() *Step {
	if x.step < 2 {
		return nil
	}
	return x.planOf(x.step - 2)
}

// moveAround evicts rows after a step, and brings the rows of the next one. Either may be nil.
func (x *Exchange) moveAround(before, next *Step) error {
	if before != nil {
		if err := x.background.moveRows(x, &before.Evict, false); err != nil {
			return err
		}
	}
	if next == nil {
		return nil
	}
	if err := x.background.moveRows(x, &next.Fetch, true); err != nil {
		return err
	}
	if x.o.Program.SendsIDs {
		return x.sendIDs(&next.Part)
	}
	return nil
}

// sendIDs sends the slots of the items to their homes, and checks that they are those of the program.
func (x *Exchange) sendIDs(p *Part) error {
	c := &x.background
	c.setCounts(p.From, p.To, 4)
	got := make([]int32, len(p.Slots))
	if err := c.comm.AllToAllV(kernels.HostBuffer(got), c.recv, kernels.HostBuffer(p.HomeSlots), c.send).Wait(); err != nil {
		return err
	}
	if !slices.Equal(got, p.Slots) {
		panic("baseline: ids differ from those of the program")
	}
	return nil
}

// setCounts sets the bytes of an all-to-all of rows of some bytes.
func (c *channel) setCounts(send, recv []int, rowBytes int) {
	for r := range c.send {
		c.send[r], c.recv[r] = rowBytes*send[r], rowBytes*recv[r]
	}
}

// moveRows moves rows from shards to stores, or back.
func (c *channel) moveRows(x *Exchange, m *Moves, toStore bool) error {
	if m.To == nil {
		return nil
	}
	sends, err := x.growMatrix(&c.sends, len(m.Send))
	if err != nil {
		return err
	}
	lands, err := x.growMatrix(&c.lands, len(m.Recv))
	if err != nil {
		return err
	}
	if err := c.readRows(x, sends, m.Send, !toStore); err != nil {
		return err
	}
	c.setCounts(m.To, m.From, 4*x.width)
	if err := c.comm.AllToAllV(lands.Buf, c.recv, sends.Buf, c.send).Wait(); err != nil {
		return err
	}
	if len(m.Recv) == 0 {
		return nil
	}
	if !toStore {
		return c.shard.StoreRows(m.Recv, lands)
	}
	index, err := x.uploadList(c.stream, &c.index, m.Recv)
	if err != nil {
		return err
	}
	c.stream.ScatterRows(x.store, lands, index)
	return c.stream.Sync()
}

// readRows gathers rows of the store or of the shard.
func (c *channel) readRows(x *Exchange, dst kernels.Matrix, slots []int32, inStore bool) error {
	if len(slots) == 0 {
		return nil
	}
	if !inStore {
		if err := c.shard.Read(dst, slots); err != nil {
			return err
		}
		return c.stream.Sync()
	}
	index, err := x.uploadList(c.stream, &c.index, slots)
	if err != nil {
		return err
	}
	c.stream.GatherRows(dst, x.store, index)
	return c.stream.Sync()
}

// growMatrix returns a matrix of some rows in a buffer, which grows.
func (x *Exchange) growMatrix(b *kernels.Buffer, rows int) (kernels.Matrix, error) {
	if err := kernels.Grow(x.o.Device, b, 4*rows*x.width, kernels.Shared); err != nil {
		return kernels.Matrix{}, err
	}
	return kernels.Mat(*b, rows, x.width), nil
}

// uploadList copies a list to a buffer, which grows.
func (x *Exchange) uploadList(s kernels.Stream, b *kernels.Buffer, list []int32) (kernels.Buffer, error) {
	if err := kernels.Grow(x.o.Device, b, 4*len(list), kernels.Working); err != nil {
		return kernels.Buffer{}, err
	}
	to := b.SliceFloats(0, len(list))
	s.Upload(to, kernels.BytesOf(list))
	return to, nil
}
