package numbers

import (
	"fmt"
	"slices"
	"testing"
)

const bareText = `commit f99d523; ecrec bench overhead model=dim16-bare; stopped after 71 s
overhead, Intel(R) Xeon(R) Processor, 2 cores, 23.6 GiB, kernels cpu avx512, go1.26.8
ecrec 0.5.0 f99d5237cc0ff59434579f8095e1de37d8ea160d, Linux 6.18.44-fc-v657, load average 2.49 2.23 2.95

dim16-bare batch 2048: 33,762,577 rows, product 479x1024 at 77865.3 samples/s, digest 5237ab
                     median   least  greatest
  step without code    5.63    4.12    8.94ms
     with / without  1.2335  0.8015    1.7078  ratio  1.2034 to 1.2893, 50 pairs

turn  floor, ms  of a step  fold
   1      0.516     7.39 %  4.75

32 s, load average 2.17 1.81 2.10 at the end; of all cores: this benchmark 85.3 %, others 9.4 %
`

const jobsText = "kernels  77.33  79.30  1.97 (tile6x16: 63.48  64.38  0.90)\nparities take 28 % of the rows, in 0.29012 s\n"

func textRecord(name, text string) *Record { return &Record{Name: name, numbers: textNumbers(text)} }

// Find rounds numbers to the digits of a claim, and finds none of headers, of longer words, or in another unit.
func TestFind(t *testing.T) {
	records := []*Record{textRecord("bare", bareText)}
	for _, c := range []struct {
		text, unit string
		want       bool
	}{
		{"5.63", "ms", true},
		{"4.1", "ms", true},
		{"0.00563", "s", true},
		{"23", "%", true},
		{"23.3", "%", true},
		{"1.23", "times", true},
		{"28.9", "%", true},
		{"7.39", "%", true},
		{"0.516", "ms", true},
		{"4.75", "", true},
		{"16", "", true},
		{"2,048", "", true},
		{"33.8", "million", true},
		{"77,900", "samples/s", true},
		{"78,000", "samples/s", true},
		{"0.078", "M samples/s", true},
		{"1,024", "", true},
		{"50", "", true},

		{"5.2", "ms", false},    // in a hash
		{"2.2", "times", false}, // a load average
		{"32", "%", false},      // an elapsed time
		{"32", "s", false},
		{"71", "s", false},
		{"23.6", "GiB", false},
		{"1.26", "", false}, // in a version
		{"85.3", "%", false},
		{"5.63", "s", false},
		{"5.63", "%", false},
		{"0.516", "%", false},
		{"7.39", "ms", false},
		{"50", "s", false}, // of pairs
		{"77,866", "samples/s", false},
		{"23.5", "%", false},
	} {
		if r, place := Find(Claim{Text: c.text, Shared: c.unit}, records); (r != nil) != c.want {
			t.Errorf("%s %s: found %v (%s), want %v", c.text, c.unit, r != nil, place, c.want)
		}
	}
}

// A record that a row or sentence names is the only one for its numbers.
func TestNear(t *testing.T) {
	records := map[string]*Record{"2026-01-01-bare": textRecord("bare", bareText), "2026-01-01-jobs": textRecord("jobs", jobsText)}
	text := "Records are `2026-01-01-bare` and `2026-01-01-jobs`. Jobs took 290 ms.\n" +
		"Parities took 28 % of the\nrows (`2026-01-01-jobs`). Blocks took 28 % (`2026-01-01-bare`).\n\n" +
		"| rows alone | 28 % (23 to 32) | 0.90, 2.2 times | `2026-01-01-bare` |\n" +
		"| a job | 28 % (23 to 32) | 0.90, 2.2 times | `2026-01-01-jobs` |\n"
	var got []string
	for _, s := range Sections("d", text) {
		for _, c := range s.Claims {
			if r, _ := Find(c, s.Near(c, records)); r != nil {
				got = append(got, fmt.Sprintf("%d %s %s %s", c.Line, c.Text, c.Shared, r.Name))
			}
		}
	}
	want := []string{"1 290 ms jobs", "2 28 % jobs", "5 23 % bare", "6 28 % jobs", "6 0.90 times jobs"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
