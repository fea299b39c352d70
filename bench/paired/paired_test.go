package paired

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// The interval holds the true median in 95 % of simulated runs or more, for symmetric, skewed and heavy-tailed ratios.
func TestCoverage(t *testing.T) {
	laws := map[string]struct {
		draw   func(*rand.Rand) float64
		median float64
	}{
		"lognormal":   {func(r *rand.Rand) float64 { return math.Exp(0.05 * r.NormFloat64()) }, 1},
		"exponential": {func(r *rand.Rand) float64 { return 1 + 0.05*r.ExpFloat64() }, 1 + 0.05*math.Ln2},
		"cauchy":      {func(r *rand.Rand) float64 { return 1 + 0.01*math.Tan(math.Pi*(r.Float64()-0.5)) }, 1},
	}
	const runs = 400
	for name, law := range laws {
		for _, pairs := range []int{LeastPairs, 7, 15} {
			r := rand.New(rand.NewPCG(3, uint64(pairs)))
			held, above := 0, 0
			for range runs {
				values := make([]float64, pairs)
				for i := range values {
					values[i] = law.draw(r)
				}
				i := Of(values)
				if i.Holds(law.median) {
					held++
				}
				if i.High >= law.median {
					above++
				}
			}
			// 95 % of 400 runs, less two standard deviations.
			if least := 371; held < least || above < least {
				t.Errorf("%s, %d pairs: %d of %d intervals hold the median, %d end above it", name, pairs, held, runs, above)
			}
		}
	}
}

// An interval is not wider than it needs: the sign test's, by its table.
func TestSignRank(t *testing.T) {
	for n, want := range map[int]int{1: 0, 5: 0, 6: 0, 8: 0, 9: 1, 15: 3, 20: 5, 30: 9, 100: 39, 1000: 468, 1001: 468} {
		if got := signRank(n); got != want {
			t.Errorf("%d pairs: rank %d, want %d", n, got, want)
		}
	}
}

func TestFewPairs(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Interval
		text   string
	}{
		{[]float64{1.5}, Interval{1, 1.5, 1.5, 1.5}, "1.50 to 1.50, 1 pair: too few"},
		{[]float64{3, 2}, Interval{2, 2.5, 2, 3}, "2.00 to 3.00, 2 pairs: too few"},
		{[]float64{0.9, 1.2, 1}, Interval{3, 1, 0.9, 1.2}, "0.90 to 1.20, 3 pairs: too few"},
	} {
		got := Of(c.values)
		if got != c.want || got.IsKnown() || got.IsApart(1) || got.Text(2, 1) != c.text {
			t.Errorf("%v: %+v, %q", c.values, got, got.Text(2, 1))
		}
	}
}

func TestVerdict(t *testing.T) {
	apart := Of([]float64{1.3, 1.2, 1.25, 1.22, 1.21, 1.28})
	if apart.Low != 1.2 || apart.High != 1.3 || !apart.IsApart(1) || apart.IsApart(1.2) || apart.Text(1, 1) != "1.2 to 1.3, 6 pairs" {
		t.Errorf("%+v, %q", apart, apart.Text(1, 1))
	}
	same := Of([]float64{0.9, 1.1, 0.95, 1.05, 1, 1})
	if same.IsApart(1) || same.Text(2, 1) != "0.90 to 1.10, 6 pairs, not told apart" || same.Text(2, 0) != "0.90 to 1.10, 6 pairs" {
		t.Errorf("%+v, %q", same, same.Text(2, 1))
	}
}

// The result is a function of the values in any order, and leaves them as they are.
func TestPure(t *testing.T) {
	a := []float64{5, 3, 4, 1, 2, 7, 6}
	b := []float64{1, 2, 3, 4, 5, 6, 7}
	if Of(a) != Of(b) || a[0] != 5 {
		t.Errorf("%+v, %+v, %v", Of(a), Of(b), a)
	}
}

// The median of the ratios of pairs is not the ratio of the medians: a drift changes both ways of a turn.
func TestRatiosOfPairs(t *testing.T) {
	a, b := []float64{2, 20, 200}, []float64{1, 10, 100}
	if got := Ratios(a, b); !reflect.DeepEqual(got, []float64{2, 2, 2}) {
		t.Errorf("%v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("pairs with one value missing are accepted")
		}
	}()
	Ratios(a, b[1:])
}
