package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/machine"
)

var ecBench = Bench{
	Name: "ec",
	Doc:  "speed of encoding, updating parities and decoding, beside memcpy",
	Settings: []Setting{
		numbers("k", "2,4,8", 1, mostColumns, "data rows in a stripe").orTiny("2,3"),
		numbers("r", "1,2,3", 1, mostParity, "parity rows in a stripe; 1: both codes, more: rs").orTiny("1,3"),
		numbers("sizes", "64,128,256,512,1024,1048576", 1, ecShard, "bytes of a row").orTiny("68,4096"),
	},
	measure: runEC,
}

const (
	ecShard     = 1 << 20 // bytes of a shard: rows side by side
	ecTinyShard = 4 << 10
	ecCopy      = 64 << 10
	ecTime      = 20 * time.Millisecond
	mostColumns = 64
	mostParity  = 16
)

func runEC(out io.Writer, o Options) (*Report, error) {
	shard, ks, rs, sizes := ecShard, o.numbers("k"), o.numbers("r"), o.numbers("sizes")
	if o.Tiny {
		shard = ecTinyShard
	}
	report := o.newReport("none")
	report.writeHeader(out)
	fmt.Fprintf(out, "\none thread, one call per row, shards of %s; GB/s of the rows changed (delta) or of the k rows of a stripe; decode restores\n"+
		"min(k, r) lost rows; median (least-greatest), and %% of memcpy\n\n", machine.Size(int64(shard)))
	t := table(out)
	defer t.Flush()
	fmt.Fprint(t, "code\tk\tr\trow bytes\tmemcpy\tencode\t%\tdelta\t%\tdecode\t%\t\n")
	for _, k := range ks {
		for _, r := range rs {
			for _, code := range ec.Names(r) {
				for _, size := range sizes {
					if err := o.measureEC(t, report, ecCase{code, k, r, size}, shard); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return report, nil
}

// ecCase is one case: a code of k data rows and r parities, and the bytes of a row.
type ecCase struct {
	code       string
	k, r, size int
}

func (c ecCase) String() string {
	return fmt.Sprintf("%s, k %d, r %d, rows of %d bytes", c.code, c.k, c.r, c.size)
}

// measureEC times the operations of a case, and checks their results.
func (o Options) measureEC(t io.Writer, report *Report, c ecCase, shard int) error {
	run, err := newECRun(c, shard)
	if err != nil {
		return err
	}
	if err := run.checkResults(); err != nil { // touches all memory, too
		return err
	}
	took := o.inTurn(0, ecTime, run.copyRows, run.encodeRows, run.foldRows, run.decode)
	rate := make([][]float64, len(took))
	for i, seconds := range took {
		rate[i] = per(float64(c.k*len(run.old[0]))/1e9, seconds)
	}
	fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t", c.code, c.k, c.r, c.size,
		spread(report.addFigure(fmt.Sprintf("memcpy, %v", c), "GB/s", rate[0]...)))
	for i, operation := range []string{"encode", "delta", "decode"} {
		name := fmt.Sprintf("%s, %v", operation, c)
		f := report.addFigure(name, "GB/s", rate[i+1]...)
		fmt.Fprintf(t, "%s\t%.0f\t", spread(f), report.addFigure(name+", of memcpy", "%", percent(rate[i+1], rate[0])...).Median)
	}
	fmt.Fprintln(t)
	return nil
}

// ecRun is the memory of a case: shards hold rows side by side.
type ecRun struct {
	ecCase
	coder   *ec.Code
	decoder *ec.Decoder

	old, new, copied, parity, decoded [][]byte // shards: k columns before an update, after it, ...
	delta                             []byte   // a row
	read, written                     [][]byte // the rows of a call
}

func newECRun(c ecCase, shard int) (*ecRun, error) {
	coder, err := ec.NewCode(c.code, c.k, c.r)
	if err != nil {
		return nil, err
	}
	lost := make([]int, min(c.k, c.r))
	for i := range lost {
		lost[i] = i
	}
	decoder, err := coder.Decoder(lost, lost)
	if err != nil {
		return nil, err
	}
	shards := func(n int) [][]byte {
		s := make([][]byte, n)
		for i := range s {
			s[i] = make([]byte, shard/c.size*c.size)
		}
		return s
	}
	run := &ecRun{ecCase: c, coder: coder, decoder: decoder,
		old: shards(c.k), new: shards(c.k), copied: shards(c.k), parity: shards(c.r), decoded: shards(len(lost)),
		delta: make([]byte, c.size)}
	random := rand.NewChaCha8([32]byte{})
	for i := range run.old {
		_, _ = random.Read(run.old[i]) // never fails
		_, _ = random.Read(run.new[i])
	}
	return run, nil
}

// checkResults encodes, updates every row and decodes lost ones, once.
func (r *ecRun) checkResults() error {
	r.copyRows()
	r.encodeRows()
	r.decode()
	for i, shard := range r.decoder.Writes {
		if !bytes.Equal(r.decoded[i], r.old[shard]) {
			return fmt.Errorf("bench: %v: column %d is decoded wrongly", r.ecCase, shard)
		}
	}
	r.foldRows()
	folded := r.parity[r.r-1]
	r.parity[r.r-1] = make([]byte, len(folded))
	r.old, r.new = r.new, r.old
	r.encodeRows()
	if !bytes.Equal(folded, r.parity[r.r-1]) {
		return errors.New("bench: " + r.String() + ": deltas do not keep parity")
	}
	return nil
}

// rowsAt returns the rows of shards at an offset, in memory that the next call reuses.
func (r *ecRun) rowsAt(memory, shards [][]byte, at int) [][]byte {
	memory = memory[:0]
	for _, s := range shards {
		memory = append(memory, s[at:at+r.size])
	}
	return memory
}

// forEachRow calls f with the offset of each row of a shard.
func (r *ecRun) forEachRow(f func(at int)) {
	for at := 0; at < len(r.old[0]); at += r.size {
		f(at)
	}
}

// copyRows copies row by row, for the machine's own rate. It copies long rows in parts, because Go's
// copy bypasses the caches from 1 MiB on.
func (r *ecRun) copyRows() {
	r.forEachRow(func(at int) {
		for i, row := range r.old {
			for begin, end := at, at+r.size; begin < end; begin += ecCopy {
				part := min(begin+ecCopy, end)
				copy(r.copied[i][begin:part], row[begin:part])
			}
		}
	})
}

func (r *ecRun) encodeRows() {
	r.forEachRow(func(at int) {
		r.read, r.written = r.rowsAt(r.read, r.old, at), r.rowsAt(r.written, r.parity, at)
		r.coder.Encode(r.written, r.read)
	})
}

// foldRows changes every row, one after the other.
func (r *ecRun) foldRows() {
	r.forEachRow(func(at int) {
		for column := range r.old {
			ec.Delta(r.delta, r.old[column][at:at+r.size], r.new[column][at:at+r.size])
			for j, parity := range r.parity {
				r.coder.Fold(parity[at:at+r.size], r.delta, column, j)
			}
		}
	})
}

func (r *ecRun) decode() {
	r.forEachRow(func(at int) {
		r.read = r.read[:0]
		for _, shard := range r.decoder.Reads {
			if shard < r.k {
				r.read = append(r.read, r.old[shard][at:at+r.size])
			} else {
				r.read = append(r.read, r.parity[shard-r.k][at:at+r.size])
			}
		}
		r.written = r.rowsAt(r.written, r.decoded, at)
		r.decoder.Decode(r.written, r.read)
	})
}
