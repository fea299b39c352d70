package serve

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// tableInfo describes a table.
type tableInfo struct {
	Name    string   `json:"name"`
	Rows    int64    `json:"rows"`
	Columns []string `json:"columns,omitempty"` // of the data, that look it up
}

// modelInfo is the reply to GET /v1/model.
type modelInfo struct {
	*Marker
	Kind    string      `json:"kind"`
	Written int64       `json:"written_ms,omitempty"` // when the marker was written, since 1970
	Lag     int64       `json:"lag_ms"`               // from then until it was served
	Age     int64       `json:"age_ms"`               // since then
	Width   int         `json:"width"`                // weights of a row
	Input   string      `json:"input"`                // the fields of a row
	Dense   int         `json:"dense"`
	Columns []string    `json:"columns,omitempty"`
	Tables  []tableInfo `json:"tables"`
}

// describe describes the model that is served.
func (s *Server) describe() (*modelInfo, error) {
	v := s.model.current.Load()
	if v == nil {
		return nil, errNoModel
	}
	f := v.spec.rows
	m := &modelInfo{Marker: v.Marker, Kind: v.spec.model.Kind, Written: v.written, Lag: v.lag().Milliseconds(),
		Age: v.staleness(time.Now()).Milliseconds(), Width: v.width, Input: f.way, Dense: f.dense, Tables: v.spec.tables()}
	if f.way == rowsByName {
		names := slices.Clone(f.names)
		slices.Sort(names)
		m.Columns = slices.Compact(names)
	}
	return m, nil
}

// tables describes the tables.
func (x *spec) tables() (list []tableInfo) {
	for t, table := range x.model.Tables {
		info := tableInfo{Name: table.Name, Rows: table.Rows}
		for f, i := range x.rows.names[x.rows.dense:] {
			if x.rows.way == rowsByName && x.rows.schema.TableOfFeature(f) == t {
				info.Columns = append(info.Columns, i)
			}
		}
		list = append(list, info)
	}
	return list
}

// findTable finds a table by its name, by its number, or by a column that looks it up.
func (x *spec) findTable(name string) (table int, err error) {
	if t, err := strconv.Atoi(name); err == nil && t >= 0 && t < len(x.model.Tables) {
		return t, nil
	}
	for t, info := range x.tables() {
		if info.Name == name || slices.Contains(info.Columns, name) {
			return t, nil
		}
	}
	return 0, notFound("no table has the name, the number or the column %.80q; /v1/model lists them", name)
}

// lookUp calls do with the weights of rows of a table, which are valid during the call.
func (s *Server) lookUp(ctx context.Context, table string, ids []int64, do func(v *view, name string, weights []float32)) error {
	if len(ids) > maxRows {
		return badRequest("over %d rows in one request", maxRows)
	}
	l, v, err := s.model.acquire(ctx)
	if err != nil {
		return err
	}
	defer l.release()
	t, err := v.spec.findTable(table)
	if err != nil {
		return err
	}
	l.numbers = l.numbers[:0]
	for _, id := range ids {
		if rows := v.spec.model.Tables[t].Rows; id < 0 || id >= rows {
			return notFound("table %s has the rows 0 to %d, not %d", v.spec.model.Tables[t].Name, rows-1, id)
		}
		l.numbers = append(l.numbers, v.spec.form.FirstRow(t)+id)
	}
	if n := len(ids) * v.width; cap(l.weights) < n {
		l.weights = make([]float32, n)
	}
	weights := l.weights[:len(ids)*v.width]
	if err := l.side.CopyRows(weights, l.numbers); err != nil {
		return err
	}
	do(v, v.spec.model.Tables[t].Name, weights)
	return nil
}

// answerModel replies to GET /v1/model.
func (s *Server) answerModel(w http.ResponseWriter, _ *http.Request) {
	began := time.Now()
	m, err := s.describe()
	var text []byte
	if err == nil {
		text, err = json.Marshal(m)
	}
	s.metrics.note(&s.metrics.model, methodModel, 0, time.Since(began), err)
	if err != nil {
		answerError(w, err)
		return
	}
	answer(w, append(text, '\n'))
}

// answerRows replies to GET /v1/rows.
func (s *Server) answerRows(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	out, rows, err := s.rowsJSON(r.Context(), r.URL.Query())
	s.metrics.note(&s.metrics.lookup, methodRows, rows, time.Since(began), err)
	if err != nil {
		answerError(w, err)
		return
	}
	answer(w, out)
}

// rowsJSON returns the reply to GET /v1/rows: the marker, and the weights of the rows.
func (s *Server) rowsJSON(ctx context.Context, query url.Values) (out []byte, rows int, err error) {
	var ids []int64
	for _, text := range query["id"] {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, 0, badRequest("id=%.40q is not a number", text)
		}
		ids = append(ids, id)
	}
	if !query.Has("table") || len(ids) == 0 {
		return nil, 0, badRequest("name a table and rows, as in /v1/rows?table=0&id=1&id=2")
	}
	err = s.lookUp(ctx, query.Get("table"), ids, func(v *view, name string, weights []float32) {
		out = append(append(append(out, '{'), v.json...), `,"table":`...)
		quoted, _ := json.Marshal(name) // a string has a form in JSON
		out = append(append(out, quoted...), `,"rows":[`...)
		for i, id := range ids {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(strconv.AppendInt(append(out, `{"id":`...), id, 10), `,"weights":[`...)
			for j, x := range weights[i*v.width : (i+1)*v.width] {
				if j > 0 {
					out = append(out, ',')
				}
				out = appendNumber(out, x)
			}
			out = append(out, "]}"...)
		}
		out = append(out, "]}\n"...)
	})
	return out, len(ids), err
}

// appendNumber appends the shortest decimal that parses back to the same float32; null for one that is not finite, which JSON lacks.
func appendNumber(out []byte, x float32) []byte {
	if x-x != 0 {
		return append(out, "null"...)
	}
	return strconv.AppendFloat(out, float64(x), 'g', -1, 32)
}
