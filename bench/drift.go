package bench

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/kernels"
)

var driftBench = Bench{
	Name: "drift",
	Doc:  "rounding error of parities that are sums of floats, beside exact XOR parities",
	Detail: "Updates the rows of stripes as Adagrad would, keeps a sum parity (ECRec, section 3) and an XOR parity, and decodes " +
		"every row from the others. Nothing is timed.",
	Settings: []Setting{
		number("k", "4", 1, mostColumns, "rows in a stripe"),
		number("width", "16", 1, 4096, "weights of a row"),
		number("stripes", "64", 1, 1<<20, "number of stripes").orTiny("2"),
		numbers("updates", "100,1000,10000,100000", 1, 1<<30, "updates of each row before it is decoded").orTiny("10,100"),
	},
	Evidence: Counted,
	measure:  runDrift,
}

// Adagrad with the usual settings of recommendation models, and gradients of one sample in a large
// batch.
const (
	driftLR       = 0.02
	driftEps      = 1e-10
	driftGradient = 0.01 // standard deviation
	driftInit     = 0.05 // bound of the initial weights
)

func runDrift(out io.Writer, o Options) (*Report, error) {
	k, width, stripes, updates := o.number("k"), o.number("width"), o.number("stripes"), o.numbers("updates")
	slices.Sort(updates)
	found := make([][]driftErrors, len(updates))
	for seed := range o.repeats() {
		d, err := newDrift(k, width, stripes, uint64(seed))
		if err != nil {
			return nil, err
		}
		for i, n := range updates {
			d.updateRows(n)
			e, err := d.decodeRows()
			if err != nil {
				return nil, err
			}
			found[i] = append(found[i], e)
		}
	}
	r := o.newReport("none")
	r.writeHeader(out)
	r.driftFigures(out, fmt.Sprintf("k %d width %d stripes %d", k, width, stripes), updates, found)
	return r, nil
}

// driftErrors are the differences between decoded rows and the true ones.
type driftErrors struct {
	weight, state float64 // the largest error of the sum parity
	typical       float64 // the root of the mean square of true weights
	wrong         float64 // floats that the sum parity does not restore bit for bit, in %
	xorWrong      float64 // rows that xor does not restore bit for bit
}

// drift holds stripes of k rows with two parities each. A row is width weights and as many floats
// of Adagrad's state.
type drift struct {
	k, width int
	code     *ec.Code
	random   *rand.Rand
	done     int           // updates of each row
	rows     [][][]float32 // [stripe][column]
	sums     [][]float32   // [stripe]
	xors     [][]byte      // [stripe]
	old      []float32
	delta    []byte
}

func newDrift(k, width, stripes int, seed uint64) (*drift, error) {
	code, err := ec.NewCode(ec.XOR, k, 1)
	if err != nil {
		return nil, err
	}
	n := 2 * width
	d := &drift{k: k, width: width, code: code, random: rand.New(rand.NewPCG(seed, 0)), old: make([]float32, n), delta: make([]byte, 4*n)}
	for range stripes {
		sum, columns, shards := make([]float32, n), make([][]float32, k), make([][]byte, k)
		for c := range columns {
			columns[c] = make([]float32, n)
			for i := range width {
				columns[c][i] = float32(driftInit * (2*d.random.Float64() - 1))
				sum[i] += columns[c][i]
			}
			shards[c] = kernels.BytesOf(columns[c])
		}
		xor := make([]byte, 4*n)
		code.Encode([][]byte{xor}, shards)
		d.rows, d.sums, d.xors = append(d.rows, columns), append(d.sums, sum), append(d.xors, xor)
	}
	return d, nil
}

// updateRows updates random rows of each stripe until each row has had n updates on average. The sum
// parity adds new - old of a row, xor adds new XOR old.
func (d *drift) updateRows(n int) {
	for ; d.done < n; d.done++ {
		for s, columns := range d.rows {
			for range d.k {
				c := d.random.IntN(d.k)
				row := columns[c]
				copy(d.old, row)
				weights, state := row[:d.width], row[d.width:]
				for i := range weights {
					g := float32(driftGradient * d.random.NormFloat64())
					state[i] += g * g
					weights[i] -= driftLR * g / (float32(math.Sqrt(float64(state[i]))) + driftEps)
				}
				for i, x := range row {
					d.sums[s][i] += x - d.old[i]
				}
				ec.Delta(d.delta, kernels.BytesOf(d.old), kernels.BytesOf(row))
				d.code.Fold(d.xors[s], d.delta, c, 0)
			}
		}
	}
}

// decodeRows decodes every row from the others of its stripe.
func (d *drift) decodeRows() (e driftErrors, err error) {
	wrong, floats, squares := 0, 0, 0.0
	got := make([]byte, len(d.delta))
	for c := range d.k {
		decoder, err := d.code.Decoder([]int{c}, []int{c})
		if err != nil {
			return e, err
		}
		for s, columns := range d.rows {
			var shards [][]byte
			for _, shard := range decoder.Reads {
				if shard == d.k {
					shards = append(shards, d.xors[s])
				} else {
					shards = append(shards, kernels.BytesOf(columns[shard]))
				}
			}
			decoder.Decode([][]byte{got}, shards)
			if !bytes.Equal(got, kernels.BytesOf(columns[c])) {
				e.xorWrong++
			}
			for i, want := range columns[c] {
				sum := d.sums[s][i]
				for other := range d.k {
					if other != c {
						sum -= columns[other][i]
					}
				}
				off := math.Abs(float64(sum) - float64(want))
				if floats++; sum != want {
					wrong++
				}
				if i < d.width {
					e.weight = max(e.weight, off)
					squares += float64(want) * float64(want)
				} else {
					e.state = max(e.state, off)
				}
			}
		}
	}
	e.wrong = 100 * float64(wrong) / float64(floats)
	e.typical = math.Sqrt(2 * squares / float64(floats))
	return e, nil
}

func (r *Report) driftFigures(out io.Writer, name string, updates []int, found [][]driftErrors) {
	fmt.Fprintf(out, "\n%s: rows decoded after a number of updates each, medians of %d\n", name, len(found[0]))
	columns := []struct {
		name, unit string
		of         func(driftErrors) float64
	}{
		{"typical weight", "", func(e driftErrors) float64 { return e.typical }},
		{"sum: largest error of a weight", "", func(e driftErrors) float64 { return e.weight }},
		{"sum: largest error of state", "", func(e driftErrors) float64 { return e.state }},
		{"sum: floats not exact", "%", func(e driftErrors) float64 { return e.wrong }},
		{"xor: rows not exact", "rows", func(e driftErrors) float64 { return e.xorWrong }},
	}
	t := table(out)
	fmt.Fprint(t, "updates\t")
	for _, c := range columns {
		fmt.Fprintf(t, "%s\t", c.name)
	}
	fmt.Fprintln(t)
	for i, n := range updates {
		fmt.Fprintf(t, "%d\t", n)
		for _, c := range columns {
			var values []float64
			for _, e := range found[i] {
				values = append(values, c.of(e))
			}
			fmt.Fprintf(t, "%.3g\t", r.addFigure(fmt.Sprintf("%s, %d updates, %s", name, n, c.name), c.unit, values...).Median)
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}
