package serve

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/ecrec/ecrec/data"
)

// FuzzRequest: a request that is accepted is JSON, and its ids are below the rows of their tables.
func FuzzRequest(f *testing.F) {
	form := &rowForm{way: rowsDirect, schema: data.Schema{Dense: 2, Tables: []int64{7, 9}}, dense: 2, bag: []bool{false, false, true, true}}
	for i := range 4 {
		form.names = append(form.names, strconv.Itoa(i))
	}
	rows, err := form.newReader(3)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{`{"rows":[]}`, `{"rows":[{"dense":[1,-2.5e1],"ids":[1,2]},{"ids":["3",[1,"2:0.5"]],"dense":["1",0]}]}`,
		` {"rows" : [ {"dense":[1,true],"ids":[[],6]} ] } `, `{"rows":[{"dense":[1,2],"ids":["\u0031","2"]}]}`, `{"rows":[{"dense":[01,2]`, `{"rows":[{"x":{"a":[{}]}}]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := &requestReader{rowReader: rows}
		if r.beginRequest(text) != nil {
			return
		}
		for total, more := 0, true; more; {
			n, again, err := r.readBatch(total)
			if err != nil {
				return
			}
			total, more = total+n, again
			if n == 0 {
				break
			}
			b := r.endBatch(n)
			for i, id := range b.IDs {
				if id >= 9 {
					t.Fatalf("lookup %d has the id %d", i, id)
				}
			}
			if b.Offsets == nil && len(b.IDs) != 2*n || len(b.Offsets) > 0 && len(b.Offsets) != 2*n+1 {
				t.Fatalf("%d rows have %d ids, %d offsets", n, len(b.IDs), len(b.Offsets))
			}
		}
		if r.endRequest() == nil && !json.Valid(text) {
			t.Fatalf("%q is no JSON", text)
		}
	})
}
