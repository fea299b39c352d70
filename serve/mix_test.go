package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
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

// forged are models whose values all encode their marker: each weight of rows and of the dense part is a number of the step alone. A request
// that saw values of two markers would have a score, or weights, that no step has.
type forged struct {
	t      *testing.T
	view   follow.View // of a real run, for its description
	dev    kernels.Device
	stream kernels.Stream
}

func forge(t *testing.T) *forged {
	r := trained(t, loadText(t, t.TempDir(), syntheticConfig))
	m := &forged{t: t}
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

// TestNoMix hammers a server with requests while it switches as fast as it can, with forks in between. Each answer must have the score and
// the weights of the marker that it names, and the scores of a marker must not differ.
func TestNoMix(t *testing.T) {
	m := forge(t)
	s := newServer(t, Options{Lanes: 3})
	m.fill(1)
	must(t, s.Publish(&m.view))
	want := map[string]string{} // scores by step, in the first answer
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
	for began := time.Now(); time.Since(began) < 3*time.Second || answers.Load() < 200; {
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
	if len(want) < 20 {
		t.Errorf("%d answers had %d markers only, of %d", answers.Load(), len(want), steps)
	}
	t.Logf("%d answers of %d markers, of %d that were published", answers.Load(), len(want), steps)
	http.DefaultClient.CloseIdleConnections()
	must(t, s.Close())
	m.end()
}

// askOnce sends one request, and checks its answer.
func (m *forged) askOnce(s *Server, k int, want map[string]string, lock *sync.Mutex) error {
	if k == 0 {
		r, err := http.Get(fmt.Sprintf("http://%s/v1/rows?table=0&id=%d&id=%d&id=2", s.Addr(), rand.IntN(3000), rand.IntN(3000)))
		if err != nil {
			return err
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
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
	rows := make([]string, 1+300*(k/3)) // the last asks for several batches
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"dense":[%s1],"ids":[%d,%d]}`, strings.Repeat("1,", m.dense()-1), rand.IntN(3000), rand.IntN(40))
	}
	r, err := http.Post("http://"+s.Addr()+"/v1/predict", "application/json", strings.NewReader(`{"rows":[`+strings.Join(rows, ",")+`]}`))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
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

// dense is how many numbers a row has.
func (m *forged) dense() int {
	cfg, err := m.view.About.Run.Recipe.Config()
	must(m.t, err)
	return cfg.Data.DenseCount()
}
