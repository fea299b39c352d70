package bench

import (
	"fmt"
	"io"
	"strconv"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/model"
)

var sizesBench = Bench{
	Name: "sizes",
	Doc:  "rows and dense parameters of the papers' models, and their shares of memory and traffic",
	Detail: "Counts the distinct rows of a batch, of both laws of synthetic ids, in the tables of each data set. Updates are the " +
		"rows of a batch " +
		"and all dense parameters, as in ECRec (VLDB 2023, sections 2.2 and 3.3). Nothing is timed.",
	Settings: []Setting{
		number("batch", "2048", 1, maxSamples, "samples of a batch").orTiny("64"),
		number("batches", "20", 1, 100_000, "batches whose distinct rows are counted").orTiny("2"),
	},
	Evidence: Counted,
	measure:  runSizes,
}

// sizedModel is a model of a paper. Its config lacks the numbers that follow from the data.
type sizedModel struct {
	name   string
	config model.Config
	// perRow is the number of dense parameters for each row that our model keeps in the row.
	perRow int
}

// sizedModels are models of BagPipe (B), ECRec (E), OpenEmbedding (O) and Continuous Checkpointing (T). ECRec's are those of its public code
// and of MLPerf, OpenEmbedding's those of its public code. Continuous Checkpointing does not describe its model.
var sizedModels = []sizedModel{
	{"B DLRM", model.Config{Kind: "dlrm", EmbeddingDim: 48, BottomMLP: []int{512, 256, 64, 48}, TopMLP: []int{1024, 1024, 1024, 256, 128, 1}}, 0},
	{"B W&D", model.Config{Kind: "wdl", EmbeddingDim: 48, BottomMLP: []int{256, 256, 256}, TopMLP: []int{1}}, 0},
	{"B D&C", model.Config{Kind: "dcn", EmbeddingDim: 48, BottomMLP: []int{1024, 512, 256, 64, 48}, TopMLP: []int{1024, 512, 256, 1},
		CrossLayers: 2, CrossRank: 8}, 0},
	{"B DeepFM", model.Config{Kind: "deepfm", EmbeddingDim: 48, TopMLP: []int{64, 64, 64, 1}, BatchNorm: true}, 1},
	{"E DLRM", model.Config{Kind: "dlrm", EmbeddingDim: 128, BottomMLP: []int{512, 256, 128}, TopMLP: []int{1024, 1024, 512, 256, 1},
		Interaction: model.InteractionSum}, 0},
	{"E DLRM, MLPerf", model.Config{Kind: "dlrm", EmbeddingDim: 128, BottomMLP: []int{512, 256, 128}, TopMLP: []int{1024, 1024, 512, 256, 1}}, 0},
	{"O DeepFM", model.Config{Kind: "deepfm", EmbeddingDim: 64, TopMLP: []int{400, 400, 400, 1}, DenseEmbedding: false}, 0},
	{"T DLRM, dim 16", model.Config{Kind: "dlrm", EmbeddingDim: 16, BottomMLP: []int{512, 256, 64, 16}, TopMLP: []int{512, 256, 1}}, 0},
}

// sizedSet is a data set of the papers.
type sizedSet struct {
	name, tables string
	dense        int
	samples      float64
}

var sizedSets = []sizedSet{
	{"Criteo Kaggle", "criteo-kaggle", 13, 39_291_958}, {"Avazu", "avazu", 1, 40_428_967}, {"Criteo Terabyte", "criteo-terabyte", 13, 4_373_472_329},
}

// sizedLaws are the laws that are counted: real tables need no other tails.
var sizedLaws = []string{data.LawIndependent, data.LawBursts}

func runSizes(out io.Writer, o Options) (*Report, error) {
	report := o.newReport("none")
	report.writeHeader(out)
	batch := o.number("batch")
	t := table(out)
	fmt.Fprintf(t, "\ndata set\trows\tGB, dim 16\tdim 48\tdim 128\trows of a batch of %d, independent\tbursts\t\n", batch)
	distinct := map[string][]float64{}
	for _, set := range sizedSets {
		rows, err := data.Tables(set.tables)
		if err != nil {
			return nil, err
		}
		all := int64(0)
		for _, n := range rows {
			all += n
		}
		of := []string{"data", set.name}
		fmt.Fprintf(t, "%s\t%.0f\t", set.name, report.addCase("rows", "rows", float64(all), of...).Median)
		for _, dim := range []int{16, 48, 128} {
			f := report.addCase("bytes of rows", "bytes", 4*float64(all)*float64(dim), append(of, "dim", strconv.Itoa(dim))...)
			fmt.Fprintf(t, "%.2f\t", f.Median/1e9)
		}
		for _, law := range sizedLaws {
			o.mustRun()
			n, err := o.countDistinct(law, set.tables)
			if err != nil {
				return nil, err
			}
			distinct[set.name] = append(distinct[set.name], n)
			fmt.Fprintf(t, "%.0f\t", report.addCase("rows of a batch", "rows/batch", n, append(of, "stream", law)...).Median)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return nil, err
	}
	return report, report.modelSizes(out, distinct)
}

// countDistinct returns the mean of the distinct rows of a batch.
func (o Options) countDistinct(law, set string) (float64, error) {
	ids, err := namedStream(law, set, o.Tiny)
	if err != nil {
		return 0, err
	}
	seen, sum, batches := map[uint64]int64{}, 0, int64(o.number("batches"))
	draw := ids.draw(1, o.number("batch"))
	for n := range batches {
		// A burst may last: the first blocks of samples have fewer of them.
		list, err := draw(n+50*(1+int64(16384/o.number("batch"))), 0, nil)
		if err != nil {
			return 0, err
		}
		for f, id := range list {
			row := uint64(f%len(ids.tables))<<32 | uint64(id)
			if seen[row] != n+1 {
				seen[row] = n + 1
				sum++
			}
		}
	}
	return float64(sum) / float64(batches), nil
}

// modelSizes reports the dense parameters of each model, and their share of the updates.
func (r *Report) modelSizes(out io.Writer, distinct map[string][]float64) error {
	t := table(out)
	defer t.Flush()
	fmt.Fprint(t, "\nmodel\tdata set\tdense parameters\trows, % of memory\tdense, % of updates, independent\tbursts\t\n")
	for _, m := range sizedModels {
		for _, set := range sizedSets {
			params, width, rows, err := m.count(set)
			if err != nil {
				return err
			}
			of := []string{"model", m.name, "data", set.name}
			fmt.Fprintf(t, "%s\t%s\t%.0f\t", m.name, set.name, r.addCase("dense parameters", "parameters", params, of...).Median)
			fmt.Fprintf(t, "%.2f\t", r.addCase("rows of memory", "%", 100*rows*width/(rows*width+params), of...).Median)
			for i, law := range sizedLaws {
				with := append(of, "stream", law)
				bytes := distinct[set.name][i] * width
				r.addCase("dense over rows", ratioUnit, params/bytes, with...)
				fmt.Fprintf(t, "%.1f\t", r.addCase("dense of the updates", "%", 100*params/(params+bytes), with...).Median)
			}
			fmt.Fprintln(t)
		}
	}
	return nil
}

// count returns the dense parameters of the paper's model, the weights of a row, and the rows.
func (m *sizedModel) count(set sizedSet) (params, width, rows float64, err error) {
	tables, err := data.Tables(set.tables)
	if err != nil {
		return 0, 0, 0, err
	}
	for _, n := range tables {
		rows += float64(n)
	}
	c := m.config
	c.Dense, c.Tables = set.dense, len(tables)
	if err := model.Check(c); err != nil {
		return 0, 0, 0, fmt.Errorf("%s: %w", m.name, err)
	}
	s := model.ShapeOf(c)
	return float64(s.DenseParams()) + float64(m.perRow)*rows, float64(s.RowWidth() - m.perRow), rows, nil
}
