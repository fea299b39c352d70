package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ecrec/ecrec/derive"
	"github.com/ecrec/ecrec/internal/safetensors"
)

// TestDerivedRedisKafka: the rows of a run pass a real broker and the program of examples/redis, and are kept in a real Redis. The program
// is killed, continues at its last marker, and takes the rest while a follower sends it. At the end Redis has the rows of the run's last
// checkpoint, bit for bit.
func TestDerivedRedisKafka(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	db, program := startRedis(t), buildRedisRows(t)
	b, dir := startBroker(t), t.TempDir()
	from, to := "kafka://"+b.at+"/run", "kafka://"+b.at+"/rows"
	out, made := filepath.Join(dir, "run"), filepath.Join(dir, "made")
	const last = 200
	expect(t, 0, nil, train(golden("dlrm-adagrad"), out, kafkaSets(from)...)...)
	send := func(step int) {
		t.Helper()
		expect(t, 0, nil, "follow", from, "--to", made, "--at", strconv.Itoa(step), "--rows-to", to, "--rows-as", "float32")
	}
	keep := func() (*exec.Cmd, *strings.Builder) {
		t.Helper()
		return startUntilEnd(t, program, []string{"REDIS_PASSWORD="}, "-brokers", b.at, "-topic", "rows", "-redis", "127.0.0.1:"+db.port)
	}
	arrived := func(step int64) (m redisMarker) {
		t.Helper()
		until(t, fmt.Sprintf("step %d in Redis", step), func() bool {
			m = db.readMarker(t)
			return m.Step >= step
		})
		return m
	}

	send(100)
	cmd, _ := keep()
	first := arrived(100)
	_ = cmd.Process.Kill() // a failure shows below
	_ = cmd.Wait()
	send(150)
	cmd, log := keep()
	arrived(150)
	send(last)
	m := arrived(last)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if code := exitCode(t, cmd.Wait()); code != 0 || strings.Contains(log.String(), "tried again") {
		t.Errorf("the program of examples/redis: exit code %d\n%s", code, log)
	}
	if m.Step != last || m.As != derive.Float32 || m.Generation != first.Generation {
		t.Errorf("the marker is %+v, want step %d of generation %d as float32", m, last, first.Generation)
	}
	compareRedis(t, db, m, filepath.Join(out, "checkpoints", stepFolder(last)))
}

// compareRedis compares all rows of a marker in Redis with an export of a checkpoint, bit for bit.
func compareRedis(t *testing.T, db redisServer, m redisMarker, checkpoint string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	expect(t, 0, nil, "export", checkpoint, "--to", path)
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if want := f.Metadata["ecrec.digest"]; m.Digest != want || want == "" {
		t.Errorf("the marker has the digest %q, the checkpoint %q", m.Digest, want)
	}
	width, total := m.As.Bytes(m.Parts), int64(0)
	tables := fmt.Sprintf("{rows}:%d", m.Generation)
	for _, table := range strings.Fields(db.do(t, "SMEMBERS", tables)) {
		x, found := f.Tensor(table)
		if !found {
			t.Fatalf("the checkpoint has no table %q", table)
		}
		weights, err := io.ReadAll(f.Reader(x))
		if err != nil {
			t.Fatal(err)
		}
		for id, row := range db.readTable(t, tables+":"+table, width) {
			at := width * id
			if at+width > len(weights) || !bytes.Equal([]byte(row), weights[at:at+width]) {
				t.Fatalf("row %d of %s is %x in Redis, and another one in the checkpoint", id, table, row)
			}
			total++
		}
	}
	if total != m.Total || total == 0 {
		t.Errorf("%d rows in Redis, %d in the marker", total, m.Total)
	}
	t.Logf("%d rows, in tables %s", total, tables)
}

// buildRedisRows builds the program of examples/redis, which is a module of its own and may need a newer Go.
func buildRedisRows(t *testing.T) string {
	t.Helper()
	path := filepath.Join(builds, "redis-rows")
	got := run(t, "go", nil, "build", "-C", "../../examples/redis", "-o", path, ".")
	switch {
	case got.code == 0:
	case strings.Contains(got.stderr, "requires go >="), strings.Contains(got.stderr, "toolchain"):
		t.Skipf("examples/redis needs a newer Go: %s", got.stderr)
	default:
		t.Fatalf("go build of examples/redis: %s", got.stderr)
	}
	return path
}

// startUntilEnd starts a program, which is killed at the end of the test. Its output is shown if the test fails.
func startUntilEnd(t *testing.T, program string, vars []string, args ...string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	cmd, out, errs := start(program, vars, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s%s", cmd, out, errs)
		}
	})
	return cmd, errs
}

// redisServer is a real Redis, and the program that sends it commands.
type redisServer struct{ cli, port string }

// startRedis starts a server in a folder of its own. It is killed at the end of the test.
func startRedis(t *testing.T) redisServer {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	cli, also := exec.LookPath("redis-cli")
	if err != nil || also != nil {
		t.Skip("there is no redis-server, or no redis-cli (Debian's package redis-server)")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a free port
	if err != nil {
		t.Fatal(err)
	}
	db := redisServer{cli, strconv.Itoa(l.Addr().(*net.TCPAddr).Port)}
	l.Close()
	startUntilEnd(t, program, nil, "--port", db.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	until(t, "redis-server", func() bool { return run(t, cli, nil, "-p", db.port, "PING").stdout == "PONG\n" })
	return db
}

// do returns the reply to a command: its elements as they are, with a newline behind each.
func (r redisServer) do(t *testing.T, args ...string) string {
	t.Helper()
	got := run(t, r.cli, nil, append([]string{"-p", r.port, "--raw"}, args...)...)
	if got.code != 0 {
		t.Fatalf("redis-cli %v: %s%s", args, got.stderr, got.stdout)
	}
	return got.stdout
}

// redisMarker is the marker in Redis.
type redisMarker struct {
	derive.Marker
	Generation int64
}

// readMarker reads the marker of the topic "rows". Without one the step is 0.
func (r redisServer) readMarker(t *testing.T) (m redisMarker) {
	t.Helper()
	if text := r.do(t, "GET", "{rows}:marker"); text != "\n" {
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatalf("the marker in Redis is %q: %v", text, err)
		}
	}
	return m
}

// readTable reads all rows of a table, by ID. The size of a row is given, since its bytes may include a newline.
func (r redisServer) readTable(t *testing.T, key string, size int) map[int]string {
	t.Helper()
	rows := map[int]string{}
	for text := r.do(t, "HGETALL", key); text != ""; {
		name, rest, _ := strings.Cut(text, "\n")
		id, err := strconv.Atoi(name)
		if err != nil || len(rest) <= size || rest[size] != '\n' {
			t.Fatalf("%s: after %d rows, %.40q is no ID with a row of %d bytes", key, len(rows), text, size)
		}
		rows[id], text = rest[:size], rest[size+1:]
	}
	return rows
}
