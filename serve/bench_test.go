package serve

import (
	"context"
	"testing"
)

// BenchmarkPredict scores one row of the quickstart's model, without HTTP.
func BenchmarkPredict(b *testing.B) {
	r := trained(b, load(b, "../examples/quickstart.toml", "train.epochs=0", "train.iterations=5", "optimizer.dense.decay_steps=0",
		"optimizer.dense.decay_start=0", "optimizer.sparse.decay_steps=0", "optimizer.sparse.decay_start=0"))
	s := newServer(b, Options{Lanes: 1})
	r.serveAt(b, s, 5)
	body := []byte(`{"rows":[` + rowsOf(b, r.cfg.Data.Eval[0])[1] + `]}`)
	b.ReportAllocs()
	var out []byte
	for b.Loop() {
		var err error
		if out, _, err = s.predictJSON(context.Background(), body, out[:0]); err != nil {
			b.Fatal(err)
		}
	}
}
