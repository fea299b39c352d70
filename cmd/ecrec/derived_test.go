package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/derive"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/stream"
	kafkatopic "github.com/ecrec/ecrec/stream/kafka"
)

// TestDerived: a follower with derived rows and a model repository is killed at random moments. At the end a consumer's rows are those of
// an export, within the stated errors, and each version of the repository equals an export of its checkpoint.
func TestDerived(t *testing.T) {
	all := []derive.Encoding{derive.Float32, derive.Float16, derive.Int8}
	if !*soak {
		all = []derive.Encoding{pick(drawing(t), all)}
	}
	for _, as := range all {
		testDerived(t, folderTopic, as)
	}
}

// TestDerivedKafka is the same with a real broker, which is killed too.
func TestDerivedKafka(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	testDerived(t, kafkaTopic(1), derive.Int8)
}

func testDerived(t *testing.T, topic topicOf, as derive.Encoding) {
	r := drawing(t)
	from, killBroker := topic(t)
	to, dir := from+"-rows", t.TempDir()
	kind, made, repository := pick(r, []string{"dlrm-adagrad", "deepfm-sgd"}), filepath.Join(dir, "made"), filepath.Join(dir, "models", "ctr")
	const last = 120
	steps := strconv.Itoa(last)
	if got := run(t, ecrec(t), nil, train(golden(kind), filepath.Join(dir, "out"), "job.ranks=2", "train.iterations="+steps,
		"ec.commit_every=2", "job.digests=true", "stream.to="+from)...); got.code != 0 {
		t.Fatalf("%s: %s", kind, got.stderr)
	}
	args := []string{"follow", from, "--to", made, "--every", "50ms", "--keep", "3", "--rows-to", to, "--rows-as", string(as),
		"--rows-backlog", "20KiB", "--triton", repository}
	for range 4 {
		cmd, out, errs := start(ecrec(t), nil, args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(100+r.IntN(600)) * time.Millisecond)
		if killBroker != nil && r.IntN(2) == 0 {
			killBroker()
		}
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		if text := errs.String(); text != "" && !strings.Contains(text, "does not answer") {
			t.Fatalf("%s\n%s", text, out)
		}
	}
	if got := run(t, ecrec(t), nil, append(args, "--at", steps)...); got.code != 0 {
		t.Fatalf("%s\n%s", got.stderr, got.stdout)
	}
	ck := filepath.Join(made, fmt.Sprintf("step-%012d", last))
	compareRows(t, readRows(t, to), ck, last)
	again := run(t, ecrec(t), nil, append(args, "--at", steps)...)
	if again.code != 0 || strings.Contains(again.stdout, " to "+to) {
		t.Errorf("rows are sent again: %s%s", again.stdout, again.stderr)
	}
	compareVersions(t, repository, made, last)
}

// TestForkedVersions: a follower that begins with the checkpoint of a fork has no version of a later step, of the run before.
func TestForkedVersions(t *testing.T) {
	topic, _ := folderTopic(t)
	dir := t.TempDir()
	saved, repository := filepath.Join(dir, "saved"), filepath.Join(dir, "models", "ctr")
	command := func(args ...string) {
		t.Helper()
		if got := run(t, ecrec(t), nil, args...); got.code != 0 {
			t.Fatalf("%s\n%s", got.stderr, got.stdout)
		}
	}
	sets := []string{"job.ranks=2", "ec.commit_every=5", "job.digests=true", "checkpoint.dir=" + saved, "checkpoint.every=5", "stream.to=" + topic}
	follow := []string{"follow", topic, "--to", filepath.Join(dir, "made"), "--at", "end", "--triton", repository}
	command(train(golden("dlrm-adagrad"), filepath.Join(dir, "out"), append(sets, "train.iterations=20")...)...)
	command(follow...)
	fork := train(golden("dlrm-adagrad"), filepath.Join(dir, "fork"), append(sets, "train.iterations=15", "optimizer.dense.lr=0.01")...)
	command(append(fork, "--resume", filepath.Join(saved, "step-000000000010"), "--allow", "optimizer.dense.lr")...)
	for range 2 { // the second one begins with the fork
		command(follow...)
		versions, err := filepath.Glob(filepath.Join(repository, "[0-9]*"))
		if err != nil || len(versions) != 1 || filepath.Base(versions[0]) != "15" {
			t.Errorf("versions %v, want 15: %v", versions, err)
		}
	}
}

// readRows reads a topic of rows. The largest error of its markers becomes that of the last one.
func readRows(t *testing.T, name string) *derive.Map {
	t.Helper()
	topic := stream.OpenFolder(env.Real(), strings.TrimPrefix(name, "file:"))
	if strings.HasPrefix(name, kafkatopic.Scheme) {
		var err error
		if topic, err = kafkatopic.Open(env.Real(), name); err != nil {
			t.Fatal(err)
		}
	}
	defer topic.Close()
	p, err := stream.OpenKeyed(topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	next, end, err := p.Bounds()
	if err != nil {
		t.Fatal(err)
	}
	m, worst := &derive.Map{}, 0.0
	for began := time.Now(); next < end && time.Since(began) < time.Minute; {
		list, err := p.Read(next, 1<<20, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			next = x.Offset + 1
			if at, err := m.Take(x); err != nil {
				t.Fatal(err)
			} else if at {
				worst = max(worst, m.Marker.MaxError)
			}
		}
	}
	m.Marker.MaxError = worst
	return m
}

// compareRows compares rows with those of an export of a checkpoint.
func compareRows(t *testing.T, m *derive.Map, checkpoint string, step int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if got := run(t, ecrec(t), nil, "export", checkpoint, "--to", path); got.code != 0 {
		t.Fatal(got.stderr)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tensors := map[string][]byte{}
	for _, x := range f.Tensors() {
		if tensors[x.Name], err = io.ReadAll(f.Reader(x)); err != nil {
			t.Fatal(err)
		}
	}
	if m.Marker.Step != step || m.Marker.Digest != f.Metadata["ecrec.digest"] || int64(len(m.Rows)) != m.Marker.Total || len(m.Rows) == 0 {
		t.Fatalf("%d rows at the marker %+v, want step %d with digest %s", len(m.Rows), m.Marker, step, f.Metadata["ecrec.digest"])
	}
	for key, value := range m.Rows {
		i := strings.LastIndex(key, "/")
		id, err := strconv.Atoi(key[i+1:])
		if err != nil {
			t.Fatal(err)
		}
		weights, err := m.Marker.As.Decode(nil, m.Marker.Parts, value)
		if err != nil {
			t.Fatal(err)
		}
		name := key[:i]
		for _, width := range m.Marker.Parts {
			for k, w := range weights[:width] {
				want := math.Float32frombits(binary.LittleEndian.Uint32(tensors[name][4*(id*width+k):]))
				if d := math.Abs(float64(w) - float64(want)); !(d <= m.Marker.MaxError) {
					t.Fatalf("%s, weight %d of %s: %v, in the export %v; the error is %v", key, k, name, w, want, m.Marker.MaxError)
				}
			}
			weights, name = weights[width:], strings.Replace(name, "emb_l", "linear_l", 1)
		}
	}
}

// compareVersions compares the versions of a model repository with exports of the checkpoints.
func compareVersions(t *testing.T, repository, made string, newest int) {
	t.Helper()
	entries, err := os.ReadDir(repository)
	if err != nil {
		t.Fatal(err)
	}
	versions := 0
	for _, e := range entries {
		step, err := strconv.Atoi(e.Name())
		if err != nil {
			if e.Name() != "config.pbtxt" {
				t.Errorf("%s has %s", repository, e.Name())
			}
			continue
		}
		versions++
		ck := filepath.Join(made, fmt.Sprintf("step-%012d", step))
		if _, err := os.Stat(ck); err != nil {
			continue // a fuller checkpoint was kept in its place
		}
		out := filepath.Join(t.TempDir(), "ctr")
		if got := run(t, ecrec(t), nil, "export", ck, "--to", "triton:"+out); got.code != 0 {
			t.Fatal(got.stderr)
		}
		for _, pair := range [][2]string{{filepath.Join(repository, e.Name(), "model.onnx"), filepath.Join(out, "1", "model.onnx")},
			{filepath.Join(repository, "config.pbtxt"), filepath.Join(out, "config.pbtxt")}} {
			have, err := os.ReadFile(pair[0])
			want, also := os.ReadFile(pair[1])
			if err != nil || also != nil || !bytes.Equal(have, want) {
				t.Errorf("%s and %s differ: %v, %v", pair[0], pair[1], err, also)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(repository, strconv.Itoa(newest), "model.onnx")); err != nil || versions > 3 {
		t.Errorf("%d versions: %v", versions, err)
	}
}
