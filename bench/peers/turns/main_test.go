package main

import (
	"strings"
	"testing"
	"time"
)

func TestRateOf(t *testing.T) {
	const table = "dim16 batch 64\n              training  77864.7  62197.8  81651.1  samples/s\n  training per CPU second  40000.5  1  2  samples\n"
	for _, c := range []struct {
		text, by string
		want     float64
	}{
		{table, "wall", 77864.7}, {table, "cpu", 40000.5}, {"", "wall", 0}, {"training: fast\n", "wall", 0},
		{"{\"rate\": 5, \"per_cpu_second\": 3}\n", "wall", 5}, {"{\"rate\": 5, \"per_cpu_second\": 3}\n{bad\n", "cpu", 3},
	} {
		if got, found := rateOf(c.text, c.by); got != c.want || found != (c.want > 0) {
			t.Errorf("%s of %q: %v, %v", c.by, c.text, got, found)
		}
	}
}

func TestCompare(t *testing.T) {
	var out strings.Builder
	o := options{pairs: 6, by: "wall", title: "m", limit: time.Minute, bars: bars{"": 1.5}}
	args := []string{`ours=echo '{"rate": 20}'`, `theirs=echo "  training  10.0"`}
	held, err := compare(&out, o, args)
	if err != nil || !held || !strings.Contains(out.String(), "m | theirs | 10 (10-10) | ours/theirs 2.00 (2.00 to 2.00, 6 pairs) | bar 1.5 holds\n") {
		t.Errorf("%v, %v\n%s", held, err, &out)
	}
	o.pairs = 3
	if held, err := compare(&out, o, args); err != nil || held {
		t.Errorf("three pairs show a bound: %v, %v", held, err)
	}
	out.Reset()
	o.pairs = 6
	if err := o.bars.Set("theirs=2.5,1.5"); err != nil {
		t.Fatal(err)
	}
	held, err = compare(&out, o, append(args, `others=echo "  training  5.0"`))
	if err != nil || held || !strings.Contains(out.String(), "bar 2.5 misses\n") || !strings.Contains(out.String(), "bar 1.5 holds\n") {
		t.Errorf("bars by name: %v, %v\n%s", held, err, &out)
	}
	if _, err := compare(&out, o, []string{args[0], "others=true"}); err == nil || !strings.Contains(err.Error(), `"theirs"`) {
		t.Errorf("a bar for no command: %v", err)
	}
	o.bars = nil
	for _, text := range []string{"", "x", "a=0", "a=-1", "1,,2"} {
		if err := (&bars{}).Set(text); err == nil {
			t.Errorf("-bars %q is taken", text)
		}
	}
	o.limit = 50 * time.Millisecond
	for want, args := range map[string][]string{
		"want NAME=COMMAND": {"x"}, "printed no rate": {"x=true"}, "took more than": {"x=sleep 5"}, "want -by": nil,
	} {
		if _, err := compare(&out, o, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
