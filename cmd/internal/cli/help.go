package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/ecrec/ecrec/bench"
)

// printHelp prints the help of a command. For ecrec bench NAME that begins with the settings
// of the benchmark.
func printHelp(o kong.HelpOptions, ctx *kong.Context) error {
	if b, ok := namedBench(ctx); ok {
		if err := describeBench(ctx.Stdout, b); err != nil {
			return err
		}
	}
	return kong.DefaultHelpPrinter(o, ctx)
}

// namedBench returns the benchmark that a command line names.
func namedBench(ctx *kong.Context) (bench.Bench, bool) {
	for _, p := range ctx.Path {
		if p.Positional != nil && p.Positional.Tag.Get("complete") == "bench" {
			b, err := bench.Find(fmt.Sprint(ctx.Value(p)))
			return b, err == nil
		}
	}
	return bench.Bench{}, false
}

// describeBench writes what a benchmark measures, and its settings.
func describeBench(out io.Writer, b bench.Bench) error {
	about := strings.ToUpper(b.Doc[:1]) + b.Doc[1:] + "."
	if b.Detail != "" {
		about += "\n\n" + wrap(b.Detail, helpWidth)
	}
	if _, err := fmt.Fprintf(out, "ecrec bench %s: %s\n\nSettings:\n", b.Name, about); err != nil {
		return err
	}
	if err := b.WriteSettings(out); err != nil {
		return err
	}
	if len(b.Bars) > 0 {
		fmt.Fprint(out, "\nBars (--bar), for the settings in brackets:\n")
		if err := b.DescribeBars(out); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(out)
	return err
}

// helpWidth is how long lines of running text in help are.
const helpWidth = 100

// wrap breaks a text into lines of at most width bytes, if its words allow.
func wrap(text string, width int) string {
	var out strings.Builder
	length := 0
	for _, word := range strings.Fields(text) {
		switch {
		case length == 0:
		case length+1+len(word) > width:
			out.WriteByte('\n')
			length = 0
		default:
			out.WriteByte(' ')
			length++
		}
		out.WriteString(word)
		length += len(word)
	}
	return out.String()
}
