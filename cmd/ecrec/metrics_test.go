package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var prometheus = flag.Bool("prometheus", false, "scrape a run with the real Prometheus: make test-metrics")

// monitoring is the folder of the board and the rules.
const monitoring = "../../examples/monitoring"

// metricsConfig is a run with all figures that need no GPU: a code, a spare, evaluations,
// checkpoints. It runs longer than any test.
const metricsConfig = `
[job]
name = "metered"
ranks = 4
save_model = false
[data]
train = ["train.bin"]
eval = ["eval.bin"]
[model]
embedding_dim = 4
tables = [40, 30, 20, 10, 40, 30, 20, 10, 40, 30, 20, 10, 40, 30, 20, 10, 40, 30, 20, 10, 40, 30, 20, 10, 40, 30]
bottom_mlp = [8, 4]
top_mlp = [8, 1]
[train]
global_batch = 64
iterations = 100000000
eval_every = 2000
[ec]
code = "xor"
k = 3
[elastic]
spares = 1
[checkpoint]
dir = "checkpoints"
every = 2000
keep = 1
`

// TestPrometheus scrapes a job that loses processes with the real Prometheus. Every
// expression of the board and the rules must have data there.
func TestPrometheus(t *testing.T) {
	if !*prometheus {
		t.Skip("starts Prometheus: make test-metrics")
	}
	for _, name := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed (Debian's package prometheus)", name)
		}
	}
	for _, args := range [][]string{{"check", "rules", "rules.yml"}, {"test", "rules", "rules_test.yml"},
		{"check", "config", "--syntax-only", "prometheus.yml"}} {
		cmd := exec.Command("promtool", args...)
		cmd.Dir = monitoring
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}

	const processes = 4
	base := freePorts(processes + 2) // and of Prometheus and the follower
	dir, program := t.TempDir(), ecrec(t)
	write(t, filepath.Join(dir, "run.toml"), metricsConfig)
	for _, args := range [][]string{{"--to", "train.bin", "--samples", "3000"}, {"--to", "eval.bin", "--samples", "500", "--first", "3000"}} {
		args[1] = filepath.Join(dir, args[1])
		if r := run(t, program, nil, append([]string{"data", "synth"}, args...)...); r.code != 0 {
			t.Fatal(r.stderr)
		}
	}
	api := startPrometheus(t, dir, base, processes)
	job, out, errs := start(program, nil, "train", filepath.Join(dir, "run.toml"), "--np", strconv.Itoa(processes),
		"--chaos", "kill:1@6000", "--chaos", "kill:2@15000",
		"--set", fmt.Sprintf("metrics.listen=127.0.0.1:%d", base), "--set", "stream.to=file:"+filepath.Join(dir, "topic"))
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	startServer(t, program, dir, fmt.Sprintf("127.0.0.1:%d", base+processes+1))
	defer func() {
		_ = job.Process.Signal(syscall.SIGINT)
		_ = job.Wait() // its code is that of the signal
		if t.Failed() {
			t.Logf("output of the job\n%s%s", tailOf(out.String()), tailOf(errs.String()))
		}
	}()

	needed := append(boardQueries(t), api.ruleQueries(t)...)
	needed = append(needed, query{"the alert RankLost", `ALERTS{alertname="RankLost",run="metered"}`})
	if len(needed) < 50 {
		t.Errorf("the board and the rules have %d expressions only", len(needed))
	}
	const patience = 3 * time.Minute
	lacking := needed
	for begin := time.Now(); len(lacking) > 0 && time.Since(begin) < patience; time.Sleep(time.Second) {
		lacking = api.lacking(t, needed)
	}
	for _, q := range lacking {
		t.Errorf("%s: no data: %s", q.where, q.expr)
	}
	// An expression without data must be detected.
	if none := api.lacking(t, []query{{"nowhere", "ecrec_no_such_figure"}, {"nowhere", `ecrec_step{run="another"}`}}); len(none) != 2 {
		t.Errorf("of 2 expressions without data %d were noticed", len(none))
	}
	api.checkRules(t)
}

// startServer starts a follower of the job's topic that serves its model, and a client that requests predictions and rows until the end of the test.
func startServer(t *testing.T, program, dir, address string) {
	t.Helper()
	done := make(chan struct{})
	stopped := make(chan struct{})
	t.Cleanup(func() { close(done); <-stopped })
	zeros := "[" + strings.TrimSuffix(strings.Repeat("0,", 26), ",") + "]"
	row := fmt.Sprintf(`{"rows":[{"dense":%s,"ids":%s}]}`, zeros[:2*13]+"]", zeros)
	var follower *exec.Cmd
	begin := func() { // the topic is there once the job has begun
		follower = exec.Command(program, "follow", "file:"+filepath.Join(dir, "topic"), "--to", filepath.Join(dir, "followed"), "--serve", address)
		follower.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := follower.Start(); err != nil {
			t.Error(err)
			follower = nil
		}
	}
	go func() {
		defer close(stopped)
		ended := make(chan struct{})
		close(ended)
		for {
			select {
			case <-done:
				if follower != nil {
					_ = follower.Process.Kill()
					<-ended
				}
				return
			case <-ended:
				begin()
				ended = make(chan struct{})
				go func(c *exec.Cmd, ended chan struct{}) {
					if c != nil {
						_ = c.Wait() // it ends if there is no topic yet
					}
					time.Sleep(time.Second)
					close(ended)
				}(follower, ended)
			case <-time.After(100 * time.Millisecond):
			}
			for _, request := range []func() (*http.Response, error){
				func() (*http.Response, error) {
					return http.Post("http://"+address+"/v1/predict", "application/json", strings.NewReader(row))
				},
				func() (*http.Response, error) { return http.Get("http://" + address + "/v1/rows?table=0&id=1") },
			} {
				if answer, err := request(); err == nil {
					answer.Body.Close()
				}
			}
		}
	}()
}

// prometheusAPI is the address of a running Prometheus.
type prometheusAPI string

// startPrometheus starts a Prometheus that scrapes the processes of a node every second, with the
// example's config. Its own port is the one after theirs.
func startPrometheus(t *testing.T, dir string, base, processes int) prometheusAPI {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(monitoring, "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := filepath.Abs(filepath.Join(monitoring, "rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for p := range processes {
		targets = append(targets, fmt.Sprintf(`"127.0.0.1:%d"`, base+p))
	}
	targets = append(targets, fmt.Sprintf(`"127.0.0.1:%d"`, base+processes+1)) // the follower
	config := strings.NewReplacer("interval: 15s", "interval: 1s", `"node1:9100", "node2:9100"`, strings.Join(targets, ", "),
		"rules.yml", rules).Replace(string(text))
	path := filepath.Join(dir, "prometheus.yml")
	write(t, path, config)
	api := prometheusAPI(fmt.Sprintf("http://127.0.0.1:%d", base+processes))
	cmd := exec.Command("prometheus", "--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"),
		"--web.listen-address="+strings.TrimPrefix(string(api), "http://"), "--log.level=warn")
	var output strings.Builder
	cmd.Stderr = &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("output of Prometheus\n%s", output.String())
		}
	})
	for begin := time.Now(); time.Since(begin) < 30*time.Second; time.Sleep(100 * time.Millisecond) {
		if answer, err := http.Get(string(api) + "/-/ready"); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return api
			}
		}
	}
	t.Fatalf("Prometheus does not start\n%s", output.String())
	return ""
}

// query is an expression and its place.
type query struct{ where, expr string }

// boardQueries returns the expressions of the board in the form that Grafana sends.
func boardQueries(t *testing.T) (all []query) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(monitoring, "board.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("$run", "metered", "$__rate_interval", "10s", "$__range", "5m")
	for _, p := range board.Panels {
		if strings.HasPrefix(p.Title, "GPU") && !exists("/dev/nvidia0") {
			continue // its description says that there is no data
		}
		for _, target := range p.Targets {
			all = append(all, query{fmt.Sprintf("board.json, panel %q", p.Title), fill.Replace(target.Expr)})
		}
	}
	return all
}

// selector matches the name of a figure with its labels.
var selector = regexp.MustCompile(`ecrec_[a-z_]+(\{[^}]*\})?`)

// rules returns the alerts that Prometheus has loaded.
func (api prometheusAPI) rules(t *testing.T) (all []struct{ Name, Query, Health, LastError string }) {
	t.Helper()
	var answer struct {
		Groups []struct {
			Rules []struct{ Name, Query, Health, LastError string }
		}
	}
	api.get(t, "/api/v1/rules", &answer)
	for _, g := range answer.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// ruleQueries returns the figures in the alerts. The alerts themselves have data only when they
// fire; their unit tests cover that.
func (api prometheusAPI) ruleQueries(t *testing.T) (all []query) {
	t.Helper()
	for _, r := range api.rules(t) {
		for _, s := range selector.FindAllString(r.Query, -1) {
			all = append(all, query{"rules.yml, alert " + r.Name, s})
		}
	}
	return all
}

// checkRules checks that Prometheus evaluates every alert.
func (api prometheusAPI) checkRules(t *testing.T) {
	t.Helper()
	all := api.rules(t)
	if len(all) == 0 {
		t.Error("Prometheus has loaded no rule")
	}
	for _, r := range all {
		if r.Health != "ok" {
			t.Errorf("rules.yml, alert %s is %s: %s", r.Name, r.Health, r.LastError)
		}
	}
}

// lacking returns the queries whose result has no number.
func (api prometheusAPI) lacking(t *testing.T, all []query) (none []query) {
	t.Helper()
	for _, q := range all {
		var answer struct{ Result []struct{ Value [2]any } }
		api.get(t, "/api/v1/query?query="+url.QueryEscape(q.expr), &answer)
		numbers := 0
		for _, r := range answer.Result {
			text, _ := r.Value[1].(string)
			if x, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(x) {
				numbers++
			}
		}
		if numbers == 0 {
			none = append(none, q)
		}
	}
	return none
}

// get queries the API. An error in the response fails the test.
func (api prometheusAPI) get(t *testing.T, path string, data any) {
	t.Helper()
	answer, err := http.Get(string(api) + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var whole struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(text, &whole); err != nil || whole.Status != "success" {
		t.Fatalf("%s: %v %s", path, err, text)
	}
	if err := json.Unmarshal(whole.Data, data); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, whole.Data)
	}
}

// tailOf returns the end of a text.
func tailOf(s string) string { return s[max(0, len(s)-2000):] }
