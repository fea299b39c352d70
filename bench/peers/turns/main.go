// Turns runs commands by turns, and compares the first one with each other one, pair by pair.
//
//	go run ./bench/peers/turns -pairs 7 "ecrec=COMMAND" "torchrec=COMMAND" ...
//
// A shell runs each command. Its rate is that of the last line of JSON, or the line "training" of ecrec bench train. With -by cpu it
// is samples per second of CPU time: the figure to compare while other programs load the machine, on one thread, because idle
// threads that spin count too.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/bench/paired"
)

// options are the flags.
type options struct {
	pairs int
	by    string
	title string
	limit time.Duration
	bars  bars
}

// command is a way to train.
type command struct{ name, text string }

func main() {
	var o options
	flag.IntVar(&o.pairs, "pairs", 7, "turns of each command; an interval takes at least 6")
	flag.StringVar(&o.by, "by", "wall", "wall, or cpu")
	flag.StringVar(&o.title, "title", "", "begins each line")
	flag.DurationVar(&o.limit, "limit", 15*time.Minute, "time that a command may take")
	flag.Var(&o.bars, "bars", "least ratios, `BOUND or NAME=BOUND` separated by commas: exit with 1 unless the lower end of each interval is at least that")
	flag.Parse()
	held, err := compare(os.Stdout, o, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "turns:", err)
		os.Exit(2)
	}
	if !held {
		os.Exit(1)
	}
}

// bars are the least ratios of the first command to others: by name, and "" for all others.
type bars map[string]float64

func (b *bars) String() string { return "" }

// Set implements flag.Value.
func (b *bars) Set(text string) error {
	*b = bars{}
	for part := range strings.SplitSeq(text, ",") {
		name, bound, found := strings.Cut(part, "=")
		if !found {
			name, bound = "", part
		}
		least, err := strconv.ParseFloat(bound, 64)
		if err != nil || least <= 0 {
			return fmt.Errorf("%q: want a positive ratio", part)
		}
		(*b)[name] = least
	}
	return nil
}

// judge returns the verdict of a ratio, and whether it holds. A peer without a bar has none.
func (b bars) judge(name string, ratio paired.Interval) (verdict string, held bool) {
	least, found := b[name]
	if !found {
		least, found = b[""]
	}
	switch {
	case !found:
		return "", true
	case ratio.IsKnown() && ratio.Low >= least:
		return fmt.Sprintf(" | bar %g holds", least), true
	case ratio.IsKnown() && ratio.High < least:
		return fmt.Sprintf(" | bar %g misses", least), false
	}
	return fmt.Sprintf(" | bar %g not shown", least), false
}

// compare runs the commands, prints their rates, and reports whether all ratios keep their bars.
func compare(out io.Writer, o options, args []string) (held bool, err error) {
	if _, known := rateLines[o.by]; !known || o.pairs < 1 || len(args) == 0 {
		return false, errors.New("want -by wall or cpu, -pairs of at least 1, and commands NAME=COMMAND")
	}
	var commands []command
	for _, a := range args {
		name, text, found := strings.Cut(a, "=")
		if !found {
			return false, fmt.Errorf("%q: want NAME=COMMAND", a)
		}
		commands = append(commands, command{name, text})
	}
	for name := range o.bars {
		if name != "" && !slices.ContainsFunc(commands[1:], func(c command) bool { return c.name == name }) {
			return false, fmt.Errorf("-bars names %q, which is none of the commands after the first", name)
		}
	}
	rates := make([][]float64, len(commands))
	for turn := range o.pairs {
		for i, c := range commands {
			began := time.Now()
			text, rate, err := runCommand(o, c)
			if err != nil {
				return false, err
			}
			rates[i] = append(rates[i], rate)
			fmt.Fprintf(out, "%s turn %d %s: %.0f (%.0f s)\n", o.title, turn+1, c.name, rate, time.Since(began).Seconds())
			if turn == 0 {
				fmt.Fprintln(out, text)
			}
		}
	}
	held = true
	for i, c := range commands {
		own := paired.Of(rates[i])
		line := fmt.Sprintf("%s | %s | %.0f (%.0f-%.0f)", o.title, c.name, own.Median, slices.Min(rates[i]), slices.Max(rates[i]))
		if i > 0 {
			ratio := paired.Of(paired.Ratios(rates[0], rates[i]))
			line += fmt.Sprintf(" | %s/%s %.2f (%s)", commands[0].name, c.name, ratio.Median, ratio.Text(2, 1))
			verdict, holds := o.bars.judge(c.name, ratio)
			line, held = line+verdict, held && holds
		}
		fmt.Fprintln(out, line)
	}
	return held, nil
}

// runCommand runs a command, and returns its output and its rate.
func runCommand(o options, c command) (text string, rate float64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), o.limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", c.text)
	cmd.WaitDelay = time.Second // its children may hold the pipe
	var errs strings.Builder
	cmd.Stderr = &errs
	b, err := cmd.Output()
	if ctx.Err() != nil {
		return "", 0, fmt.Errorf("%s took more than %v: %s", c.name, o.limit, c.text)
	}
	rate, found := rateOf(string(b), o.by)
	if !found {
		return "", 0, fmt.Errorf("%s printed no rate (%v): %s\n%s%s", c.name, err, c.text, b, &errs)
	}
	return string(b), rate, nil
}

// rateLines are, for each -by, the key of a line of JSON and the line of ecrec's table.
var rateLines = map[string]struct {
	key  string
	line *regexp.Regexp
}{
	"wall": {"rate", regexp.MustCompile(`^\s*training\s+([0-9.]+)`)},
	"cpu":  {"per_cpu_second", regexp.MustCompile(`^\s*training per CPU second\s+([0-9.]+)`)},
}

// rateOf returns the last rate of an output.
func rateOf(text, by string) (rate float64, found bool) {
	want := rateLines[by]
	for line := range strings.Lines(text) {
		var values map[string]any
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &values) == nil {
			if x, ok := values[want.key].(float64); ok {
				rate, found = x, true
			}
		} else if m := want.line.FindStringSubmatch(line); m != nil {
			rate, _ = strconv.ParseFloat(m[1], 64) // digits and points; 0 if there are two points
			found = true
		}
	}
	return rate, found
}
