package train

import (
	"strings"
	"testing"
)

// rated records the warnings of evaluations, which warned ignores.
type rated struct {
	quiet
	said []string
}

func (r *rated) Warned(what string) { r.said = append(r.said, what) }

// An evaluation that is worse than predicting the label rate alone is warned of, once, by
// the exact rate of the evaluation's labels.
func TestWorseThanTheLabelRate(t *testing.T) {
	for _, c := range []struct {
		lr       string
		warnings int
	}{{"10", 1}, {"0.05", 0}} { // with 0.05 only the first evaluations are worse
		w := &rated{}
		result := run(t, Options{Observer: w}, adagrad, "job.ranks=2", "train.eval_every=2", "optimizer.dense.lr="+c.lr,
			"optimizer.sparse.lr="+c.lr)
		if len(w.said) != c.warnings {
			t.Errorf("lr %s: warned %q of %+v", c.lr, w.said, result.Eval)
		}
		for _, said := range w.said {
			if !strings.Contains(said, "that of always predicting the label rate (0.") || !strings.Contains(said, "lower optimizer.dense.lr") {
				t.Errorf("warned %q", said)
			}
		}
	}
}
