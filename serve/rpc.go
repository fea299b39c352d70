package serve

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"

	"github.com/ecrec/ecrec/serve/servepb"
)

// rpc replies to gRPC, gRPC-Web and Connect.
type rpc struct{ s *Server }

// addRPC adds the gRPC services to a mux: predictions, health and reflection. Requests are not compressed: a few bytes could contain
// a large one.
func (s *Server) addRPC(mux *http.ServeMux) {
	plain := connect.WithCompression("gzip", nil, nil)
	path, serving := servepb.NewServingHandler(rpc{s}, append(s.metrics.codecs(), plain, connect.WithReadMaxBytes(maxBody))...)
	mux.Handle(path, s.bodies.limit(serving))
	small := []connect.HandlerOption{plain, connect.WithReadMaxBytes(maxSmall)}
	mux.Handle(grpchealth.NewHandler(rpc{s}, small...))
	reflector := grpcreflect.NewStaticReflector(servepb.ServingName, grpchealth.HealthV1ServiceName)
	mux.Handle(grpcreflect.NewHandlerV1(reflector, small...))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector, small...))
}

// Check implements grpchealth.Checker: a server that is ready is serving.
func (r rpc) Check(_ context.Context, in *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if in.Service != "" && in.Service != servepb.ServingName {
		return nil, asRPC(notFound("no service is called %.80q", in.Service))
	}
	if r.s.Ready() != nil {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
}

// message is the marker as a message.
func (m *Marker) message() *servepb.Marker {
	return &servepb.Marker{Step: m.Step, Digest: m.Digest, Lineage: m.Lineage}
}

// Predict implements servepb.ServingHandler.
func (r rpc) Predict(ctx context.Context, in *connect.Request[servepb.PredictRequest]) (*connect.Response[servepb.PredictResponse], error) {
	began := time.Now()
	out, err := r.s.predictMessage(ctx, in.Msg)
	r.s.metrics.note(&r.s.metrics.predict, methodPredict, len(in.Msg.Rows), time.Since(began), err)
	if err != nil {
		return nil, asRPC(err)
	}
	return connect.NewResponse(out), nil
}

// Rows implements servepb.ServingHandler.
func (r rpc) Rows(ctx context.Context, in *connect.Request[servepb.RowsRequest]) (*connect.Response[servepb.RowsResponse], error) {
	began, out := time.Now(), new(servepb.RowsResponse)
	err := r.s.lookUp(ctx, in.Msg.Table, in.Msg.Ids, func(v *view, name string, weights []float32) {
		out.Marker, out.Table, out.Width = v.message(), name, int32(v.width)
		out.Weights = append(out.Weights, weights...)
	})
	r.s.metrics.note(&r.s.metrics.lookup, methodRows, len(in.Msg.Ids), time.Since(began), err)
	if err != nil {
		return nil, asRPC(err)
	}
	return connect.NewResponse(out), nil
}

// Model implements servepb.ServingHandler.
func (r rpc) Model(context.Context, *connect.Request[servepb.ModelRequest]) (*connect.Response[servepb.ModelResponse], error) {
	began := time.Now()
	m, err := r.s.describe()
	r.s.metrics.note(&r.s.metrics.model, methodModel, 0, time.Since(began), err)
	if err != nil {
		return nil, asRPC(err)
	}
	out := &servepb.ModelResponse{Marker: m.message(), Kind: m.Kind, WrittenMs: m.Written, LagMs: m.Lag, AgeMs: m.Age, Width: int32(m.Width),
		Input: m.Input, Dense: int32(m.Dense), Columns: m.Columns}
	for _, t := range m.Tables {
		out.Tables = append(out.Tables, &servepb.Table{Name: t.Name, Rows: t.Rows, Columns: t.Columns})
	}
	return connect.NewResponse(out), nil
}

// predictMessage scores the rows of a message.
func (s *Server) predictMessage(ctx context.Context, in *servepb.PredictRequest) (*servepb.PredictResponse, error) {
	if len(in.Rows) > maxRows {
		return nil, badRequest("over %d rows in one request", maxRows)
	}
	l, v, err := s.model.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer l.release()
	out := &servepb.PredictResponse{Marker: v.message(), Scores: make([]float32, 0, len(in.Rows))}
	for first, n := 0, 0; first < len(in.Rows); first += n {
		l.beginBatch()
		for n = 0; l.takesMore(n) && first+n < len(in.Rows); n++ {
			l.beginRow()
			err := l.takeMessage(in.Rows[first+n])
			if err == nil {
				err = l.endRow(n)
			}
			if err != nil {
				return nil, inRow(first+n, err)
			}
		}
		scores, err := l.Score(l.endBatch(n), l.side)
		if err != nil {
			return nil, inRow(first, badRequest("the batch that begins there: %v", err))
		}
		out.Scores = append(out.Scores, scores...)
	}
	return out, nil
}

// takeMessage takes the fields of a row.
func (r *rowReader) takeMessage(row *servepb.Row) error {
	if r.way == rowsByName {
		for name, value := range row.Columns {
			for _, i := range r.uses[name] {
				if err := r.takeValue(i, value); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if len(row.Dense) != r.dense || len(row.Ids) != len(r.names)-r.dense {
		return badRequest("it has %d numbers and %d ids, the model %d and %d", len(row.Dense), len(row.Ids), r.dense, len(r.names)-r.dense)
	}
	for i, value := range row.Dense {
		if err := r.takeValue(i, value); err != nil {
			return err
		}
	}
	for i, value := range row.Ids {
		if err := r.takeValue(r.dense+i, value); err != nil {
			return err
		}
	}
	return nil
}

// appendText appends the text of a number: whole ones without an exponent, as files have them.
func appendText(to []byte, x float64) []byte {
	const exact = 1 << 53
	if x == math.Trunc(x) && math.Abs(x) < exact {
		return strconv.AppendFloat(to, x, 'f', -1, 64)
	}
	return strconv.AppendFloat(to, x, 'g', -1, 64)
}

// takeValue sets a field to the text of a value, as JSON has it.
func (r *rowReader) takeValue(i int, value *servepb.Value) error {
	switch x := value.GetKind().(type) {
	case *servepb.Value_Text:
		return r.setField(i, []byte(x.Text))
	case *servepb.Value_Number:
		return r.setField(i, appendText(nil, x.Number))
	case *servepb.Value_Integer:
		return r.setField(i, strconv.AppendInt(nil, x.Integer, 10))
	case *servepb.Value_List:
		texts := x.List.Texts
		if len(x.List.Integers) > 0 {
			if len(texts) > 0 {
				return badRequest("%s: a list has texts or integers, not both", r.fieldName(i))
			}
			for _, id := range x.List.Integers {
				texts = append(texts, strconv.FormatInt(id, 10))
			}
		}
		for _, text := range texts {
			if strings.IndexByte(text, listSeparator) >= 0 {
				return badRequest("%s: the character 0 is in an id", r.fieldName(i))
			}
		}
		return r.setList(i, []byte(strings.Join(texts, string(rune(listSeparator)))))
	}
	return r.setField(i, nil)
}
