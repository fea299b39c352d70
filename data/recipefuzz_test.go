package data

import (
	"bytes"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
)

// FuzzRecipe parses recipes. One that is taken makes ids below the rows of its tables of any text, and reads as it is written.
func FuzzRecipe(f *testing.F) {
	for _, seed := range []string{
		`{"version":1,"format":"csv","dense":[{"column":"x","transform":"standard","mean":1,"deviation":2}],"categorical":[{"column":"c","rows":4,"ids":"vocabulary","reserved":2,"vocabulary":["a","b"]}],"source":"0"}`,
		`{"version":1,"format":"csv","delimiter":",","na":["NA"],"dense":[],"categorical":[{"column":"c","separator":"|","weighted":true,"rows":9,"shared":1,"ids":"xxh3-64 of the text, modulo rows","reserved":1},{"column":"d","rows":9,"shared":1,"ids":"xxh3-64 of the text, modulo rows","reserved":1}]}`,
		`{"version":2,"format":"avazu-csv","dense":[],"categorical":[{"column":"day","of":"at","transform":"weekday","rows":3,"ids":"vocabulary","reserved":2,"vocabulary_bytes":["/w=="]}]}`,
		`{"version":3,"format":"parquet","dense":[],"categorical":[{"column":"c","rows":3,"ids":"vocabulary","reserved":2,"vocabulary_xxh3":"AAAAAAAAAAA="}]}`,
		`{"version":1,"format":"csv","dense":[],"categorical":[{"column":"c","rows":2,"ids":"unsigned 32-bit number, modulo rows","reserved":2}]}`,
		`{"version":1,"format":"criteo-tsv","dense":[{"transform":"log1p"}],"categorical":[{"rows":5,"ids":"unsigned 32-bit number, modulo rows"}]}`,
	} {
		f.Add([]byte(seed), "a", "1.5")
	}
	f.Fuzz(func(t *testing.T, text []byte, category, number string) {
		r, err := ParseRecipe(text)
		if err != nil {
			return
		}
		again, err := ParseRecipe(r.Encode())
		if err != nil || !bytes.Equal(again.Encode(), r.Encode()) {
			t.Fatalf("it is read back as %s: %v", again.Encode(), err)
		}
		o := Options{Env: env.Real(), Format: r.Format, Recipe: r}
		o.fitsTables()
		schema := r.Schema()
		rows := schema.FeatureRows()
		e, err := r.NewEncoder()
		if err != nil {
			return
		}
		fields := make([][]byte, len(e.Columns()))
		for i := range fields {
			if fields[i] = []byte(category); i < len(r.Dense) {
				fields[i] = []byte(number)
			}
		}
		var b Batch
		e.Resize(&b, 2)
		for i := range 2 {
			if bad, _ := e.EncodeSample(&b, i, fields); bad >= 0 {
				return
			}
		}
		features := len(rows)
		for i, id := range b.IDs {
			feature := i % features
			if b.Offsets != nil {
				feature = 0
				for int(b.Offsets[feature+1]) <= i {
					feature++
				}
				feature %= features
			}
			if int64(id) >= rows[feature] {
				t.Fatalf("feature %d of %d rows has the id %d", feature, rows[feature], id)
			}
		}
	})
}
