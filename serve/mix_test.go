package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// forged are models whose values all encode their marker: each weight of rows and of the dense part is a number of the step alone.
// A request that saw values of two markers would have a score, or weights, that no step has.
type forged struct {
	t      *testing.T
	view   follow.View // of a real run, for its description
	dev    kernels.Device
	stream kernels.Stream
	dense  int // numbers of a row
}

func forge(t *testing.T) *forged {
	r := trained(t, loadText(t, t.TempDir(), syntheticConfig, "model.tables=[300, 40]"))
	m := &forged{t: t, dense: r.cfg.Data.DenseCount()}
	f, err := follow.Open(follow.Options{Env: env.Real(), Topic: r.topic, Dir: t.TempDir(), At: 5, Stop: func() bool { return false },
		Publish: func(v *follow.View) error { m.view = *v; return nil }})
	must(t, err)
	defer f.Close()
	must(t, f.Run())
	m.dev, err = kernels.NewCPU(kernels.CPUOptions{})
	must(t, err)
	m.stream = m.dev.Stream(1)
	t.Cleanup(m.stream.Close)
	m.begin()
	return m
}

// begin makes the rows of another model.
func (m *forged) begin() {
	n := len(m.view.Shards)
	m.view.Shards, m.view.Fresh = nil, true
	for owner := range n {
		h, err := shard.New(m.dev, m.stream, m.view.Model.ShardOptions(owner, n))
		must(m.t, err)
		m.view.Shards = append(m.view.Shards, h)
	}
	m.view.Changed, m.view.Reset = make([][]int32, n), make([]bool, n)
}

// end frees the rows.
func (m *forged) end() {
	for _, h := range m.view.Shards {
		h.Close()
	}
}

// value is the value of each weight at a step.
func value(step int64) float32 { return float32(step%97+1) / 512 }

// fill makes all values those of a step.
func (m *forged) fill(step int64) {
	x := value(step)
	for owner, h := range m.view.Shards {
		slots := make([]int32, h.Slots())
		rows := make([]float32, int(h.Slots())*h.RowBytes()/4)
		for i := range slots {
			slots[i] = int32(i)
		}
		for i := range rows {
			rows[i] = x
		}
		must(m.t, h.StoreRaw(slots, kernels.BytesOf(rows)))
		m.view.Changed[owner], m.view.Reset[owner] = slots, step%5 == 0
	}
	dense := make([]float32, len(m.view.Dense)/4)
	for i := range dense {
		dense[i] = x
	}
	m.view.Dense, m.view.Step, m.view.Digest = kernels.BytesOf(dense), step, fmt.Sprintf("%032x", step)
	m.view.Written = time.Now().UnixMilli()
}

// TestNoMix hammers a server with requests while it switches as fast as it can, with forks in between. Each reply must have the score and
// the weights of the marker that it names, and the scores of a marker must not differ.
func TestNoMix(t *testing.T) {
	m := forge(t)
	s := newServer(t, Options{Lanes: 3})
	m.fill(1)
	must(t, s.Publish(&m.view))
	want := map[string]string{} // scores by step, in the first reply
	var lock sync.Mutex
	var done atomic.Bool
	var answers atomic.Int64
	var group sync.WaitGroup
	for k := range 4 {
		group.Go(func() {
			for !done.Load() {
				if err := m.askOnce(s, k, want, &lock); err != nil {
					t.Error(err)
					return
				}
				answers.Add(1)
			}
		})
	}
	steps := int64(0)
	markers := func() int {
		lock.Lock()
		defer lock.Unlock()
		return len(want)
	}
	for began := time.Now(); time.Since(began) < 2*time.Second || answers.Load() < 200 || markers() < 20; {
		steps++
		m.view.Fresh = false
		if steps%50 == 0 {
			m.end()
			m.begin()
		}
		m.fill(steps + 1)
		must(t, s.Publish(&m.view))
		if time.Since(began) > time.Minute {
			t.Fatal("no answers")
		}
	}
	done.Store(true)
	group.Wait()
	t.Logf("%d answers of %d markers, of %d that were published", answers.Load(), len(want), steps)
	http.DefaultClient.CloseIdleConnections()
	must(t, s.Close())
	m.end()
}

// askOnce sends one request, and checks its reply. Those of reader 0 come over HTTP; the others are in the server already.
func (m *forged) askOnce(s *Server, k int, want map[string]string, lock *sync.Mutex) (err error) {
	ask := func(path, body string) (text []byte) {
		switch {
		case k == 0:
			_, answer := call(m.t, s, map[bool]string{true: "GET", false: "POST"}[body == ""], path, body)
			text = []byte(answer)
		case body == "":
			var at *url.URL
			if at, err = url.Parse(path); err == nil {
				text, _, err = s.rowsJSON(context.Background(), at.Query())
			}
		default:
			text, _, err = s.predictJSON(context.Background(), []byte(body), nil)
		}
		return text
	}
	if rand.IntN(3) == 0 {
		text := ask(fmt.Sprintf("/v1/rows?table=0&id=%d&id=%d&id=2", rand.IntN(300), rand.IntN(300)), "")
		var answer struct {
			Step   int64
			Digest string
			Rows   []struct{ Weights []float32 }
		}
		if err == nil {
			err = json.Unmarshal(text, &answer)
		}
		for _, row := range answer.Rows {
			for _, w := range row.Weights {
				if w != value(answer.Step) {
					err = fmt.Errorf("the answer of step %d has a weight %v, want %v: %s", answer.Step, w, value(answer.Step), text)
				}
			}
		}
		if err == nil && (len(answer.Rows) != 3 || answer.Digest != fmt.Sprintf("%032x", answer.Step)) {
			err = fmt.Errorf("%s", text)
		}
		return err
	}
	rows := make([]string, []int{1, 4, 40, 300}[k]) // the last asks for several batches
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"dense":[%s1],"ids":[%d,%d]}`, strings.Repeat("1,", m.dense-1), rand.IntN(300), rand.IntN(40))
	}
	text := ask("/v1/predict", `{"rows":[`+strings.Join(rows, ",")+`]}`)
	var p prediction
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil || len(p.Scores) != len(rows) || p.Digest != fmt.Sprintf("%032x", p.Step) {
		return fmt.Errorf("%s (%v)", text, err)
	}
	lock.Lock()
	defer lock.Unlock()
	key := fmt.Sprint(value(p.Step))
	for _, x := range p.Scores { // all rows have the same values
		if want[key] == "" {
			want[key] = x.String()
		}
		if x.String() != want[key] {
			return fmt.Errorf("step %d has the scores %s and %s", p.Step, want[key], x)
		}
	}
	return nil
}

// TestLateReader: a request that chose a view, and was held up while the server switched to other markers, gets no lane with values of
// another one.
func TestLateReader(t *testing.T) {
	m := forge(t)
	s := newServer(t, Options{Lanes: 2})
	var views []*view
	for step := range int64(4) {
		m.fill(step + 1)
		must(t, s.Publish(&m.view))
		m.view.Fresh = false
		views = append(views, s.model.current.Load())
	}
	for _, v := range views[:3] {
		if l, err := s.model.enter(context.Background(), v); l != nil || err != nil {
			l.release()
			t.Fatalf("a lane of step %d, when the server is at step 4 (%v)", v.Step, err)
		}
	}
	l, err := s.model.enter(context.Background(), views[3])
	must(t, err)
	other, v, err := s.model.acquire(context.Background())
	must(t, err)
	if v.Step != 4 || other == l {
		t.Errorf("step %d", v.Step)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, _, err := s.model.acquire(ctx); !errors.Is(err, context.DeadlineExceeded) { // both lanes are in use
		t.Errorf("%v", err)
	}
	l.release()
	other.release()
	must(t, s.Close())
	m.end()
}
