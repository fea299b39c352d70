package serve

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// handler replies to all requests.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/predict", s.bodies.limit(http.HandlerFunc(s.answerPredict)))
	mux.HandleFunc("GET /v1/rows", s.answerRows)
	mux.HandleFunc("GET /v1/model", s.answerModel)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answerState(w, s.Failed()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answerState(w, s.Ready()) })
	s.addRPC(mux)
	scrapes := promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second}
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, scrapes))
	return mux
}

// answerState sends 200, or 503 with a reason.
func answerState(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n") // the client may be gone
}

// buffers is the memory of a request.
type buffers struct{ body, out []byte }

var pool = sync.Pool{New: func() any { return new(buffers) }}

// maxPooled is how large the memory of a request may be that is kept.
const maxPooled = 1 << 20

func (b *buffers) giveBack() {
	if cap(b.body)+cap(b.out) <= maxPooled {
		pool.Put(b)
	}
}

var jsonType = []string{"application/json"}

// answer sends JSON.
func answer(w http.ResponseWriter, text []byte) {
	w.Header()["Content-Type"] = jsonType
	_, _ = w.Write(text) // the client may be gone
}

// answerError sends an error as JSON.
func answerError(w http.ResponseWriter, err error) {
	text, _ := json.Marshal(map[string]string{"error": err.Error()}) // strings have a form in JSON
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(statusOf(err))
	_, _ = w.Write(append(text, '\n'))
}

// answerPredict replies to POST /v1/predict.
func (s *Server) answerPredict(w http.ResponseWriter, r *http.Request) {
	b := pool.Get().(*buffers)
	defer b.giveBack()
	var err error
	if b.body, err = readBody(w, r, b.body[:0]); err != nil {
		s.metrics.note(&s.metrics.predict, methodPredict, 0, 0, err)
		answerError(w, err)
		return
	}
	began, rows := time.Now(), 0
	b.out, rows, err = s.predictJSON(r.Context(), b.body, b.out[:0])
	s.metrics.note(&s.metrics.predict, methodPredict, rows, time.Since(began), err)
	if err != nil {
		answerError(w, err)
		return
	}
	answer(w, b.out)
}

// readBody reads the body of a request into to.
func readBody(w http.ResponseWriter, r *http.Request, to []byte) ([]byte, error) {
	if r.ContentLength > maxBody {
		return to, &http.MaxBytesError{Limit: maxBody}
	}
	if n := int(r.ContentLength); n >= 0 {
		if cap(to) < n {
			to = make([]byte, n)
		}
		_, err := io.ReadFull(r.Body, to[:n])
		if err != nil {
			err = badRequest("the body: %v", err)
		}
		return to[:n], err
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
}

// predictJSON appends the reply to a request: the marker, and the scores of the rows.
func (s *Server) predictJSON(ctx context.Context, body, out []byte) ([]byte, int, error) {
	l, v, err := s.model.acquire(ctx)
	if err != nil {
		return out, 0, err
	}
	defer l.release()
	if err := l.beginRequest(body); err != nil {
		return out, 0, err
	}
	out = append(append(append(out, '{'), v.json...), `,"scores":[`...)
	rows := 0
	for more := true; more; {
		n := 0
		if n, more, err = l.readBatch(rows); err != nil {
			return out, 0, err
		}
		if rows += n; rows > maxRows {
			return out, 0, badRequest("over %d rows in one request", maxRows)
		}
		if n == 0 {
			break
		}
		scores, err := l.Score(l.endBatch(n), l.side)
		if err != nil {
			return out, 0, inRow(rows-n, badRequest("the batch that begins there: %v", err))
		}
		for i, x := range scores {
			if i > 0 || rows > n {
				out = append(out, ',')
			}
			out = appendNumber(out, x)
		}
	}
	if err := l.endRequest(); err != nil {
		return out, 0, err
	}
	return append(out, "]}\n"...), rows, nil
}
