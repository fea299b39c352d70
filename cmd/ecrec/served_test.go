package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServed follows a run with a server, in processes of their own: a prediction over HTTP is that of ecrec predict with the
// checkpoint of the step. The server is killed, and serves the same model after a restart, also once the topic is gone.
func TestServed(t *testing.T) {
	out, made, topic := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "made"), filepath.Join(t.TempDir(), "topic")
	if got := run(t, ecrec(t), nil, "train", "../../examples/quickstart.toml", "--set", "job.out="+out, "--set", "train.epochs=0",
		"--set", "train.iterations=40",
		"--set", "ec.commit_every=10", "--set", "stream.to=file:"+topic, "--set", "optimizer.dense.decay_steps=0", "--set",
		"optimizer.dense.decay_start=0",
		"--set", "optimizer.sparse.decay_steps=0", "--set", "optimizer.sparse.decay_start=0"); got.code != 0 {
		t.Fatal(got.stderr)
	}
	first := ""
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		l, err := net.Listen("tcp", "127.0.0.1:0") // a free port
		if err != nil {
			t.Fatal(err)
		}
		at := "http://" + l.Addr().String()
		l.Close()
		cmd, _, wrong := start(ecrec(t), nil, "follow", "file:"+topic, "--to", made, "--every", "1ms", "--serve", l.Addr().String())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); request(t, at+"/readyz", "") != "ok" || !strings.Contains(request(t, at+"/v1/model", ""), `"step":40,`); {
			if time.Since(began) > time.Minute {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				t.Fatalf("no model: %s", wrong)
			}
			time.Sleep(20 * time.Millisecond)
		}
		answer := request(t, at+"/v1/predict", `{"rows":[{"age":25,"workclass":"Private","fnlwgt":226802,"education":"11th","education_num":7,`+
			`"marital_status":"Never-married","occupation":"Machine-op-inspct","relationship":"Own-child","race":"Black","sex":"Male","capital_gain":0,`+
			`"capital_loss":0,"hours_per_week":40,"native_country":"United-States"}]}`)
		if first == "" {
			first = answer
		}
		if answer != first {
			t.Errorf("%s after a restart, before it %s", answer, first)
		}
		saved := filepath.Join(made, "step-000000000040", "manifest.json")
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
			if _, err := os.Stat(saved); err == nil {
				break
			}
		}
		_ = cmd.Process.Signal(end)
		if err := cmd.Wait(); (end == syscall.SIGTERM) != (err == nil) {
			t.Errorf("%v: %v: %s", end, err, wrong)
		}
		if err := os.Rename(topic, topic+"-gone"); err != nil && end == syscall.SIGKILL {
			t.Fatal(err)
		}
	}
	got := run(t, ecrec(t), nil, "predict", made, "--data", "../../examples/adult/eval.csv")
	var p struct{ Scores []json.Number }
	if err := json.Unmarshal([]byte(first), &p); err != nil || len(p.Scores) != 1 {
		t.Fatalf("%s (%v)", first, err)
	}
	if !strings.HasPrefix(got.stdout, fmt.Sprintf("score\n%s\n", p.Scores[0])) {
		t.Errorf("served %s, predicted %.60s %s", first, got.stdout, got.stderr)
	}
}

// request sends a request, and returns the reply.
func request(t *testing.T, url, body string) string {
	t.Helper()
	defer http.DefaultClient.CloseIdleConnections()
	var a *http.Response
	var err error
	if body == "" {
		a, err = http.Get(url)
	} else {
		a, err = http.Post(url, "application/json", strings.NewReader(body))
	}
	if err != nil {
		return err.Error()
	}
	defer a.Body.Close()
	text, _ := io.ReadAll(a.Body) // the caller compares it
	return strings.TrimSpace(string(text))
}
