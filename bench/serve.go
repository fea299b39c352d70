package bench

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/serve"
	"github.com/ecrec/ecrec/stream"
	"github.com/ecrec/ecrec/train"
)

var serveBench = Bench{
	Name: "serve",
	Doc:  "single predictions per second of follow --serve, beside an empty handler",
	Detail: "Both handlers take turns behind the same HTTP server and the same load, in this process: connections that stay open, " +
		"one row a request. The rate is that of connections that send the next request after a reply. Then requests are due at half the " +
		"rate of the predictions, and a reply is timed from the moment its request was due. Meanwhile the model switches to other markers. " +
		"CPU time is that of the process for each reply, with the load.",
	Settings: []Setting{
		choice("model", "quickstart", []string{"quickstart", "criteo"}, "shape: 6 numbers, 8 ids, 3,433 parameters; or 13, 26, 0.5 million"),
		number("conns", "16", 1, 10_000, "connections").orTiny("2"),
		number("ms", "3000", 10, 1_000_000, "length of a turn").orTiny("50"),
		number("markers", "5", 0, 1000, "switches to another marker per second").orTiny("50"),
		number("pairs", "", 1, 1000, "turns of each handler. Default: --repeats").orTiny("1"),
		dirSetting,
	},
	Bars: []Bar{{nil, "20,000 predictions a second, or 0.60 of the rate of an empty handler; 99 % of them within 5 ms at half the rate", [][]Check{
		{atLeast("predict, half", Median, 20_000), atMost("predict, half, p99", Median, 5)},
		{atLeast("predict / empty", Lower, 0.60), atMost("predict, half, p99", Median, 5)},
	}}},
	measure: runServe,
}

// serveRun is a run of the benchmark.
type serveRun struct {
	o        Options
	server   *serve.Server
	view     follow.View
	follower *follow.Follower
	empty    *http.Server
	at       string // the address of empty
	bodies   [][]byte
}

func runServe(out io.Writer, o Options) (_ *Report, err error) {
	b := &serveRun{o: o}
	dir, err := o.tempDir()
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	defer func() { err = errors.Join(err, b.closeServers()) }()
	if err := b.startServers(dir); err != nil {
		return nil, err
	}
	pairs := o.number("pairs")
	if pairs == 0 {
		pairs = o.repeats()
	}
	r := o.newReport("exact")
	r.writeHeader(out)
	fmt.Fprintf(out, "\nmodel %s, %d connections, one row of %d bytes a request, %d markers per second, %d turns of each handler\n\n",
		o.text("model"), o.number("conns"), len(b.bodies[0]), o.number("markers"), pairs)
	names, results, err := b.measureTurns(pairs)
	if err != nil {
		return nil, err
	}
	return r, b.writeTable(out, r, names, results)
}

// measureTurns runs the turns while the model switches to other markers.
func (b *serveRun) measureTurns(pairs int) (names []string, results [][]loadResult, err error) {
	stop := b.switchMarkers()
	defer func() { err = errors.Join(err, stop()) }()
	return runTurns(b.o, pairs, b.turn)
}

// turn runs each handler once at full speed, and once at half the speed of the predictions.
func (b *serveRun) turn(run func(name string, job func() (loadResult, error))) {
	load := func(addr, path string, rate float64) (loadResult, error) {
		lasts := time.Duration(b.o.number("ms")) * time.Millisecond
		l := requestLoad{addr: addr, conns: b.o.number("conns"), lasts: lasts, rate: rate}
		for _, body := range b.bodies {
			l.requests = append(l.requests, fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: bench\r\nContent-Length: %d\r\n\r\n%s", path,
				len(body), body))
		}
		return l.run()
	}
	half := 0.0
	run("empty", func() (loadResult, error) { return load(b.at, "/", 0) })
	run("predict", func() (x loadResult, err error) {
		x, err = load(b.server.Addr(), "/v1/predict", 0)
		half = x.rate / 2
		return x, err
	})
	run("empty, half", func() (loadResult, error) { return load(b.at, "/", half) })
	run("predict, half", func() (loadResult, error) { return load(b.server.Addr(), "/v1/predict", half) })
}

// writeTable prints the figures.
func (b *serveRun) writeTable(out io.Writer, r *Report, names []string, results [][]loadResult) error {
	t := table(out)
	fmt.Fprint(t, "load\tanswers/s\tleast\tgreatest\tp50 ms\tp99 ms\tworst p99\tCPU us\t\n")
	for i, name := range names {
		var rates, p50, p99, cpu []float64
		for _, turn := range results {
			x := turn[i]
			rates, p50, p99 = append(rates, x.rate), append(p50, quantile(x.times, 0.5)), append(p99, quantile(x.times, 0.99))
			cpu = append(cpu, x.cpu)
		}
		rate, tail := r.addFigure(name, "1/s", rates...), r.addFigure(name+", p99", "ms", p99...)
		half := r.addFigure(name+", p50", "ms", p50...)
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t%.3f\t%.3f\t%.3f\t%.1f\t\n", name, rate.Median, rate.Min, rate.Max, half.Median,
			tail.Median, tail.Max,
			r.addFigure(name+", CPU", "us", cpu...).Median)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var ours, empty []float64
	for _, turn := range results {
		ours, empty = append(ours, turn[1].rate), append(empty, turn[0].rate)
	}
	ratio := r.addRatio("predict / empty", ours, empty)
	_, err := fmt.Fprintf(out, "\npredict / empty: %.2f of the replies per second (%s)\n", ratio.Median, ratio.betweenText(2))
	return err
}

// startServers trains a model for a few steps, and serves it.
func (b *serveRun) startServers(dir string) error {
	cfg, err := b.config(dir)
	if err != nil {
		return err
	}
	e, topic := env.Real(), stream.NewMemory(env.Real())
	if _, err = train.Run(e, cfg, train.Options{Observer: silent{}, Stop: func() bool { return false },
		Progress: func(data.Progress) error { return nil }, Topic: func(env.Env, string) (stream.Topic, error) {
			return topic,
				nil
		}}); err != nil {
		return err
	}
	if b.server, err = serve.New(serve.Options{Addr: "127.0.0.1:0"}); err != nil {
		return err
	}
	b.follower, err = follow.Open(follow.Options{Env: e, Topic: topic, Dir: filepath.Join(dir, "follow"), At: 5,
		Stop:    func() bool { return false },
		Publish: func(v *follow.View) error { b.view = *v; return b.server.Publish(v) }})
	if err != nil {
		return err
	}
	if err = b.follower.Run(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b.at = l.Addr().String()
	b.empty = serve.NewHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // errors end the load
		_, _ = w.Write([]byte("{}\n"))
	}))
	env.Real().Go("bench server", func() { _ = b.empty.Serve(l) }) // until closeServers
	return nil
}

// closeServers ends the servers.
func (b *serveRun) closeServers() (err error) {
	if b.empty != nil {
		err = b.empty.Close()
	}
	if b.server != nil {
		err = errors.Join(err, b.server.Close())
	}
	if b.follower != nil {
		b.follower.Close()
	}
	return err
}

// switchMarkers publishes the model again and again, with changed rows, until stop is called.
func (b *serveRun) switchMarkers() (stop func() error) {
	if b.o.number("markers") == 0 {
		return func() error { return nil }
	}
	ended, err := make(chan struct{}), make(chan error, 1)
	b.view.Fresh = false
	for owner, h := range b.view.Shards {
		slots := make([]int32, min(h.Slots(), 2000))
		for i := range slots {
			slots[i] = int32(i)
		}
		b.view.Changed[owner] = nil
		for _, slot := range slots {
			if h.TouchedBits()[slot>>6]>>(slot&63)&1 != 0 {
				b.view.Changed[owner] = append(b.view.Changed[owner], slot)
			}
		}
	}
	go func() {
		tick := time.NewTicker(time.Second / time.Duration(b.o.number("markers")))
		defer tick.Stop()
		for {
			select {
			case <-ended:
				err <- nil
				return
			case <-tick.C:
			}
			b.view.Step++
			if problem := b.server.Publish(&b.view); problem != nil {
				err <- problem
				return
			}
		}
	}()
	return func() error { close(ended); return <-err }
}

// config writes the data of the model, and its config. It also makes the bodies of requests.
func (b *serveRun) config(dir string) (*config.Config, error) {
	dense, ids, rows, layers := 6, 8, 200, "embedding_dim = 8\nbottom_mlp = [32, 8]\ntop_mlp = [64, 1]"
	if b.o.text("model") == "criteo" {
		dense, ids, rows, layers = 13, 26, 100_000, "embedding_dim = 16\nbottom_mlp = [512, 256, 64, 16]\ntop_mlp = [512, 256, 1]"
	}
	var names, tables []string
	for i := range dense {
		names = append(names, fmt.Sprintf("number_%d", i))
	}
	for i := range ids {
		names, tables = append(names, fmt.Sprintf("category_%d", i)), append(tables, fmt.Sprint(rows))
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	lines := []string{"label," + strings.Join(names, ",")}
	for i := range 2000 {
		var fields, members []string
		for k, name := range names {
			field := fmt.Sprint(rnd.IntN(2000))
			if k >= dense {
				field = fmt.Sprintf("value %d", rnd.IntN(10*rows))
			}
			fields = append(fields, field)
			if k >= dense {
				field = `"` + field + `"`
			}
			members = append(members, `"`+name+`":`+field)
		}
		lines = append(lines, fmt.Sprint(i%2)+","+strings.Join(fields, ","))
		b.bodies = append(b.bodies, []byte(`{"rows":[{`+strings.Join(members, ",")+`}]}`))
	}
	quote := func(list []string) string { return `"` + strings.Join(list, `","`) + `"` }
	text := fmt.Sprintf(serveConfig, quote(names[:dense]), quote(names[dense:]), strings.Join(tables, ","), layers)
	path := filepath.Join(dir, "run.toml")
	if err := os.WriteFile(filepath.Join(dir, "train.csv"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return config.Load(path, []string{"job.out=" + filepath.Join(dir, "out")})
}

// serveConfig is a run config without the columns of numbers, those of ids, the tables and the layers.
const serveConfig = `[job]
ranks = 1
[data]
format = "csv"
train = ["train.csv"]
[data.csv]
label = "label"
dense = [%s]
categorical = [%s]
[model]
kind = "dlrm"
tables = [%s]
%s
[train]
global_batch = 128
iterations = 5
[ec]
code = "none"
commit_every = 5
[stream]
to = "file:unused"
`
