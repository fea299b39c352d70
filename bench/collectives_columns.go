package bench

import (
	"fmt"
	"io"
	"slices"
)

// columns are the column layouts of the printed tables.
type columns struct{ nccl, osu bool }

// columnsOf parses the setting columns.
func columnsOf(name string) columns { return columns{nccl: name != "osu", osu: name != "nccl"} }

// row is a row of a table: the medians of a case over the repeats.
type row struct {
	collectiveCase
	us, algbw, busbw, wrong float64
	mean, least, most, p50  float64
	beside                  float64 // of MPI or a bare connection; 0: not measured
	ratio                   Figure  // to it
}

// printTables adds the figures of a transport to the report and prints its tables.
func (b *collectivesRun) printTables(l *lane) {
	rows := make([]row, len(b.cases))
	for i, c := range b.cases {
		rows[i] = b.addFigures(l, c, &l.found[i])
	}
	fmt.Fprintf(b.out, "\n%s, %s, medians of %d\n", l.name, l.where, b.options.repeats())
	if b.columns.nccl {
		printNCCL(b.out, rows, l.besideName())
	}
	if b.columns.osu {
		printOSU(b.out, rows)
	}
}

// addFigures adds the measurements of a case to the report.
func (b *collectivesRun) addFigures(l *lane, c collectiveCase, m *measured) row {
	transport := l.name
	add := func(what, unit string, values []float64) float64 {
		return b.report.addFigure(fmt.Sprintf("%s %s %d B%s", transport, c.name, c.bytes, what), unit, values...).Median
	}
	compare := func(what string) Figure {
		return b.report.addRatio(fmt.Sprintf("%s %s %d B%s", transport, c.name, c.bytes, what), m.us, m.beside)
	}
	r := row{collectiveCase: c, us: add("", "us", m.us), algbw: add(" algbw", "GB/s", m.algbw), busbw: add(" busbw", "GB/s", m.busbw)}
	b.report.addAs(Counted, fmt.Sprintf("%s %s %d B wrong", transport, c.name, c.bytes), "elements", m.wrong...)
	r.wrong = slices.Max(m.wrong)
	r.mean, r.p50 = add(" mean", "us", m.mean), add(" p50", "us", m.p50)
	r.least, r.most = add(" least", "us", m.least), add(" most", "us", m.most)
	switch {
	case m.beside == nil:
	case b.report.MPI != "": // whose times are figures of their own
		r.beside, r.ratio = figure("", "", m.beside).Median, compare(" ratio to transport mpi")
	case l.bare != nil:
		r.beside, r.ratio = add(" bare connection", "us", m.beside), compare(" ratio to a bare connection")
	default:
		r.beside, r.ratio = add(" mpi", "us", m.beside), compare(" ratio to mpi")
	}
	return r
}

// printNCCL prints the columns of nccl-tests, and the time of MPI or a bare connection, if it was measured.
func printNCCL(out io.Writer, rows []row, name string) {
	t := table(out)
	head, units := "\tsize\tcount\ttype\tredop\ttime\talgbw\tbusbw\t#wrong\t", "\tB\telements\t\t\tus\tGB/s\tGB/s\t\t"
	beside := rows[0].beside > 0
	if beside {
		head, units = head+name+"\tratio\tinterval\t", units+"us\t\t\t"
	}
	fmt.Fprintln(t, head)
	fmt.Fprintln(t, units)
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%.1f\t%.2f\t%.2f\t%.0f\t",
			r.name, r.bytes, r.bytes/r.elementBytes, r.element, r.redop, r.us, r.algbw, r.busbw, r.wrong)
		if beside {
			fmt.Fprintf(t, "%.1f\t%.2f\t%s\t", r.beside, r.ratio.Median, r.ratio.betweenText(2))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}

// printOSU prints a table for each operation, in the columns and widths of the OSU
// micro-benchmarks.
func printOSU(out io.Writer, rows []row) {
	for i, r := range rows {
		if i == 0 || r.name != rows[i-1].name {
			fmt.Fprintf(out, "\n# %s\n%-10s%18s%18s%18s%18s%12s\n", r.name, "# Size", "Avg Latency(us)", "Min Latency(us)",
				"Max Latency(us)", "P50 Latency(us)", "Iterations")
		}
		fmt.Fprintf(out, "%-10d%18.2f%18.2f%18.2f%18.2f%12d\n", r.bytes, r.mean, r.least, r.most, r.p50, collectiveRounds*r.iterations())
	}
}
