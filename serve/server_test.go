package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/stream"
)

// TestReadiness: a server is ready once it has a model whose digest was compared, at a restart before any cut arrives, and as long as the
// marker is not too old.
func TestReadiness(t *testing.T) {
	r := trainedTo(t, loadText(t, t.TempDir(), syntheticConfig), stream.OpenFolder(followEnv, t.TempDir())) // records have times
	s := newServer(t, Options{Lanes: 1})
	for path, want := range map[string]int{"/readyz": 503, "/healthz": 200, "/v1/model": 503, "/v1/rows?table=0&id=1": 503, "/metrics": 200} {
		if status, text := call(t, s, "GET", path, ""); status != want {
			t.Errorf("%s: %d, want %d: %s", path, status, want, text)
		}
	}
	if status, text := call(t, s, "POST", "/v1/predict", `{"rows":[]}`); status != 503 || !strings.Contains(text, "no model yet") {
		t.Errorf("%d: %s", status, text)
	}
	dir := t.TempDir()
	must(t, r.follow(t, s, dir, 20).Run())
	if status, text := call(t, s, "GET", "/readyz", ""); status != 200 {
		t.Errorf("%d: %s", status, text)
	}
	_, before := call(t, s, "GET", "/v1/model", "")

	again := newServer(t, Options{Lanes: 1, MaxStaleness: time.Hour})
	f, err := follow.Open(follow.Options{Env: followEnv, Topic: r.topic, Dir: copyFolder(t, dir), At: follow.Latest,
		Stop: func() bool { return true }, Publish: again.Publish})
	must(t, err)
	t.Cleanup(f.Close)
	must(t, f.Run())
	if status, text := call(t, again, "GET", "/readyz", ""); status != 200 {
		t.Errorf("%d: %s", status, text)
	}
	_, after := call(t, again, "GET", "/v1/model", "")
	times := regexp.MustCompile(`"(lag|age)_ms":\d+`)
	if times.ReplaceAllString(before, "") != times.ReplaceAllString(after, "") || !strings.Contains(after, `"written_ms":`) {
		t.Errorf("%s\nafter a restart %s", before, after)
	}
	again.o.MaxStaleness = time.Nanosecond
	if status, text := call(t, again, "GET", "/readyz", ""); status != 503 || !strings.Contains(text, "old, over") {
		t.Errorf("%d: %s", status, text)
	}
	again.Fail(errors.New("it broke"))
	if status, text := call(t, again, "GET", "/healthz", ""); status != 503 || text != "it broke" {
		t.Errorf("%d: %s", status, text)
	}
	_, text := call(t, again, "GET", "/metrics", "")
	for _, want := range []string{"ecrec_follow_step 20\n", "ecrec_follow_failed 1\n", "ecrec_serve_ready 0\n",
		"ecrec_follow_lag_seconds", "ecrec_follow_staleness_seconds"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
}

// TestCutsAreCounted: checkpoints and bases are no cuts.
func TestCutsAreCounted(t *testing.T) {
	s := newServer(t, Options{Lanes: 1})
	for _, p := range []follow.Progress{{Step: 5, Rows: 7}, {Step: 5, Path: "step-000000000005"}, {Step: 5, Base: "base"}} {
		s.Applied(p)
	}
	if _, text := call(t, s, "GET", "/metrics", ""); !strings.Contains(text, "ecrec_follow_cuts_total 1\n") {
		t.Error(text)
	}
}

// copyFolder copies the folder of a follower.
func copyFolder(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// TestErrors: an error of a client is one line, which names the row.
func TestErrors(t *testing.T) {
	r := trained(t, load(t, "../examples/quickstart.toml", "train.epochs=0", "train.iterations=5", "optimizer.dense.decay_steps=0",
		"optimizer.dense.decay_start=0", "optimizer.sparse.decay_steps=0", "optimizer.sparse.decay_start=0"))
	s := newServer(t, Options{Lanes: 1})
	r.serveAt(t, s, 5)
	row := `{"age":25,"workclass":"Private","fnlwgt":226802,"education":"11th","education_num":7,"marital_status":"Never-married","occupation":"Sales",` +
		`"relationship":"Own-child","race":"Black","sex":"Male","capital_gain":0,"capital_loss":0,"hours_per_week":40,"native_country":"United-States"}`
	if status, text := call(t, s, "POST", "/v1/predict", `{"rows":[`+row+`]}`); status != 200 {
		t.Fatalf("%d: %s", status, text)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"POST", "/v1/predict", "", 400, "'{' is missing"},
		{"POST", "/v1/predict", `{}`, 400, "a key in quotes"},
		{"POST", "/v1/predict", `{"row":[]}`, 400, `the key \"rows\" is missing`},
		{"POST", "/v1/predict", `{"rows":[` + row + `]`, 400, "'}' is missing at the end"},
		{"POST", "/v1/predict", `{"rows":[` + row + `]} x`, 400, "text follows"},
		{"POST", "/v1/predict", `{"rows":[` + row + ` ` + row + `]}`, 400, "a comma or ']'"},
		{"POST", "/v1/predict", `{"rows":[` + row + `,` + strings.Replace(row, `"age":25,`, "", 1) + `]}`, 400, `row 2: column \"age\" is missing`},
		{"POST", "/v1/predict", `{"rows":[` + strings.Replace(row, `"age":25`, `"age":"old"`, 1) + `]}`, 400, `row 1: column \"age\", \"old\": not a decimal number`},
		{"POST", "/v1/predict", `{"rows":[` + strings.Replace(row, `"age":25`, `"age":25,"age":26`, 1) + `]}`, 400, `is there twice`},
		{"POST", "/v1/predict", `{"rows":[` + strings.Replace(row, `"Male"`, `["Male"]`, 1) + `]}`, 400, `has one value, not a list`},
		{"POST", "/v1/predict", `{"rows":[` + strings.Replace(row, `"Male"`, `"\ud800x"`, 1) + `]}`, 400, `surrogate`},
		{"POST", "/v1/predict", `{"rows":[` + strings.Replace(row, `25`, `025`, 1) + `]}`, 400, `a malformed number`},
		{"POST", "/v1/predict", `{"rows":[` + strings.Repeat("[", 99) + `]}`, 400, `'{' is missing at the beginning of a row`},
		{"POST", "/v1/predict", `{"rows":[{"x":` + strings.Repeat("[", 99) + `]}`, 400, `values in values`},
		{"POST", "/v1/predict", strings.Repeat(" ", maxBody+1), 413, "too large"},
		{"POST", "/v1/predict", `{"rows":[` + strings.Repeat(row+",", maxRows) + row + `]}`, 400, "over 16384 rows"},
		{"GET", "/v1/predict", "", 405, ""},
		{"GET", "/v1/rows", "", 400, "name a table and rows"},
		{"GET", "/v1/rows?table=0&id=x", "", 400, "is not a number"},
		{"GET", "/v1/rows?table=8&id=1", "", 404, "no table"},
		{"GET", "/v1/rows?table=race&id=100", "", 404, "has the rows 0 to 99, not 100"},
		{"GET", "/v2", "", 404, ""},
	} {
		status, text := call(t, s, c.method, c.path, c.body)
		if status != c.status || !strings.Contains(text, c.text) || strings.Contains(text, "\n") {
			t.Errorf("%s %s %.200s: %d %s; want %d %s", c.method, c.path, c.body, status, text, c.status, c.text)
		}
	}
	if status, _ := call(t, s, "GET", "/v1/rows?table=race&id=99", ""); status != 200 {
		t.Error(status)
	}
	_, text := call(t, s, "GET", "/metrics", "")
	for _, want := range []string{`ecrec_serve_requests_total{code="400",method="predict"} 15`, `ecrec_serve_rows_total{method="predict"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
}

// TestMismatch: a model whose digest is wrong is never visible, and the last right one stays.
func TestMismatch(t *testing.T) {
	r := trained(t, loadText(t, t.TempDir(), syntheticConfig))
	s := newServer(t, Options{Lanes: 1})
	r.damage(t, 15)
	err := r.follow(t, s, t.TempDir(), 20).Run()
	var wrong *follow.Mismatch
	if !errors.As(err, &wrong) || wrong.Step != 15 {
		t.Fatal(err)
	}
	_, text := call(t, s, "GET", "/v1/model", "")
	var m modelInfo
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Step != 10 {
		t.Errorf("%s (%v)", text, err)
	}
}

// TestShutdown: Close ends idle connections, after the requests that were begun.
func TestShutdown(t *testing.T) {
	r := trained(t, loadText(t, t.TempDir(), syntheticConfig))
	s := newServer(t, Options{Lanes: 1})
	r.serveAt(t, s, 5)
	c, err := net.Dial("tcp", s.Addr())
	must(t, err)
	defer c.Close()
	body := fmt.Sprintf(`{"rows":[{"dense":[%s1],"ids":[1,2]}]}`, strings.Repeat("1,", r.cfg.Data.DenseCount()-1))
	_, err = fmt.Fprintf(c, "POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:10])
	must(t, err)
	time.Sleep(50 * time.Millisecond) // the request is begun
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	time.Sleep(50 * time.Millisecond)
	_, err = fmt.Fprint(c, body[10:])
	must(t, err)
	answer := make([]byte, 15)
	_, err = c.Read(answer)
	must(t, err)
	if string(answer) != "HTTP/1.1 200 OK" {
		t.Errorf("%s", answer)
	}
	must(t, <-closed)
	if _, err := net.Dial("tcp", s.Addr()); err == nil {
		t.Error("it listens still")
	}
}
