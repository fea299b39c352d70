package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServed follows a run with a server, in processes of their own: a prediction over HTTP is that of ecrec predict with the
// checkpoint of the step. The server is killed, and serves the same model after a restart, also once the topic is gone, or its broker.
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
	serve := func(topic string, end syscall.Signal) string {
		at, cmd, said, wrong := startStep40(t, topic, made)
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
		return said.String()
	}
	serve("file:"+topic, syscall.SIGKILL)
	if err := os.Rename(topic, topic+"-gone"); err != nil {
		t.Fatal(err)
	}
	serve("file:"+topic, syscall.SIGTERM)

	lost := "kafka://127.0.0.1:1/topic"
	positions := filepath.Join(made, "follow.json")
	b, err := os.ReadFile(positions)
	if err != nil || !strings.Contains(string(b), topic) {
		t.Fatalf("%s (%v)", b, err)
	}
	if err := os.WriteFile(positions, []byte(strings.ReplaceAll(string(b), topic, lost)), 0o644); err != nil {
		t.Fatal(err)
	}
	if said := serve(lost, syscall.SIGTERM); !strings.Contains(said, "127.0.0.1:1 does not answer") {
		t.Errorf("nothing about the broker: %s", said)
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

// startStep40 starts a follower that serves, and waits for the model of step 40.
func startStep40(t *testing.T, topic, made string) (at string, cmd *exec.Cmd, said, wrong *strings.Builder) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // a free port
	if err != nil {
		t.Fatal(err)
	}
	at = "http://" + l.Addr().String()
	l.Close()
	cmd, said, wrong = start(ecrec(t), nil, "follow", topic, "--to", made, "--every", "1ms", "--serve", l.Addr().String())
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
	return at, cmd, said, wrong
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
