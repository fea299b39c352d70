package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// startRedis starts a server until the end of the test.
func startRedis(t *testing.T) *redis.Client {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server (Debian's package redis-server)")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	db := redis.NewClient(&redis.Options{Addr: address})
	t.Cleanup(func() { db.Close() })
	for range 100 {
		if db.Ping(t.Context()).Err() == nil {
			return db
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("redis-server does not answer")
	return nil
}

const (
	topic = "rows"
	name  = "{test}"
	ids   = 300
)

// writer writes markers in whose rows every value is the step at which the row was written.
type writer struct {
	client *kgo.Client
	rows   map[string]int64 // the step of the row
	run    int              // there is a row run/RUN in each model of a run
}

func (w *writer) send(t *testing.T, key string, value []byte) {
	t.Helper()
	must(t, w.client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(key), Value: value}).FirstErr())
}

// marker writes some rows, all if it begins, and the marker of a step, whose digest is the sum of all rows' values.
func (w *writer) marker(t *testing.T, step int64, begin bool) {
	t.Helper()
	if begin {
		w.run++
		w.rows = map[string]int64{}
		w.send(t, "begin", []byte(`{"as":"float32"}`))
	}
	var batch []*kgo.Record
	put := func(key string) {
		w.rows[key] = step
		batch = append(batch, &kgo.Record{Topic: topic, Key: []byte(key), Value: binary.LittleEndian.AppendUint64(nil, uint64(step))})
	}
	for i := range ids {
		if begin || rand.IntN(3) == 0 {
			put(fmt.Sprintf("t.%d/%d", i%3, i))
		}
	}
	if !begin && rand.IntN(3) == 0 {
		key := fmt.Sprintf("t.0/%d", 3*rand.IntN(ids/3))
		delete(w.rows, key)
		batch = append(batch, &kgo.Record{Topic: topic, Key: []byte(key)})
	}
	must(t, w.client.ProduceSync(t.Context(), batch...).FirstErr())
	sum := int64(0)
	for _, x := range w.rows {
		sum += x
	}
	text, err := json.Marshal(map[string]any{"step": step, "digest": strconv.FormatInt(sum, 10), "total": len(w.rows)})
	must(t, err)
	w.send(t, "marker", text)
}

// snapshot is README's way to read rows of one marker: all rows of all tables, here.
var snapshot = redis.NewScript(`
local marker = redis.call('GET', KEYS[1])
if not marker then return {} end
local answer = {marker}
local generation = string.format('%d', cjson.decode(marker).generation)
for _, table in ipairs(ARGV) do
  answer[#answer + 1] = redis.call('HVALS', (string.gsub(KEYS[1], 'marker$', generation .. ':' .. table)))
end
return answer`)

// check reads all rows as one command, and compares their sum with the marker's. It returns the step.
func check(t *testing.T, db *redis.Client) int64 {
	t.Helper()
	answer, err := snapshot.Run(context.Background(), db, []string{name + ":marker"}, "t.0", "t.1", "t.2").Slice()
	if err != nil {
		t.Error(err)
		return -1
	}
	if len(answer) == 0 {
		return -1
	}
	var m struct {
		Step   int64
		Digest string
		Total  int
	}
	if err := json.Unmarshal([]byte(answer[0].(string)), &m); err != nil {
		t.Error(err)
	}
	sum, n := uint64(0), 0
	for _, list := range answer[1:] {
		for _, value := range list.([]any) {
			sum += binary.LittleEndian.Uint64([]byte(value.(string)))
			n++
		}
	}
	if strconv.FormatUint(sum, 10) != m.Digest || n != m.Total {
		t.Errorf("step %d: %d rows with the sum %d, the marker has %d with %s", m.Step, n, sum, m.Total, m.Digest)
	}
	return m.Step
}

// TestOneMarker: readers see the rows of one marker, while rows change and are removed, models are replaced, and the store is ended at any
// moment. At the end they see the last one, and nothing is left of the models before it.
func TestOneMarker(t *testing.T) {
	db := startRedis(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	must(t, err)
	defer cluster.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	must(t, err)
	defer client.Close()
	w := &writer{client: client}

	ended := make(chan struct{})
	var stop, seen atomic.Int64
	go func() { // the store, ended and started again
		defer close(ended)
		for stop.Load() == 0 || stop.Load() > seen.Load() {
			life := time.Duration(20+rand.IntN(150)) * time.Millisecond
			ctx, cancel := context.WithTimeout(context.Background(), life)
			s := &store{db: db, name: name}
			if err := s.follow(ctx, cluster.ListenAddrs(), topic); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			cancel()
		}
	}()
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		for began := time.Now(); stop.Load() == 0 || stop.Load() > seen.Load(); {
			seen.Store(check(t, db))
			if t.Failed() || time.Since(began) > time.Minute {
				seen.Store(1 << 40)
			}
		}
	}()
	last := int64(60)
	for step := int64(1); step <= last; step++ {
		w.marker(t, step, step == 1 || step == 20 || step == 45)
		time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
	}
	stop.Store(last)
	<-reading
	<-ended
	if at := check(t, db); at != last {
		t.Errorf("readers see step %d at the end, not %d", at, last)
	}
	if keys := db.Keys(t.Context(), "*").Val(); len(keys) != 6 { // the marker, the generations, the tables, and three of rows
		t.Errorf("keys at the end: %v", keys)
	}
}

// TestOldMarkers: a marker that is older than the broker's lag is not shown while records follow it, since rows may be missing before it.
func TestOldMarkers(t *testing.T) {
	db := startRedis(t)
	s := &store{db: db, name: name}
	must(t, s.load(t.Context()))
	old := time.Now().Add(-2 * time.Hour)
	for i, r := range []*kgo.Record{
		{Key: []byte("t.0/1"), Value: []byte("of a model before")}, {Key: []byte("begin"), Value: []byte("{}")}, {Key: []byte("t.0/3"),
			Value: []byte("x")},
		{Key: []byte("marker"), Value: []byte(`{"step":1}`), Timestamp: old}, {Key: []byte("t.0/5"), Value: []byte("y")}} {
		r.Offset = int64(i)
		must(t, s.take(t.Context(), r, false))
	}
	if n := db.Exists(t.Context(), name+":marker").Val(); n != 0 {
		t.Error("an old marker is shown")
	}
	must(t, s.take(t.Context(), &kgo.Record{Key: []byte("marker"), Value: []byte(`{"step":2}`), Timestamp: old, Offset: 5}, true))
	if rows := db.HGetAll(t.Context(), name+":1:t.0").Val(); len(rows) != 2 || rows["3"] != "x" || rows["5"] != "y" {
		t.Errorf("the rows are %v", rows)
	}
	if text := db.Get(t.Context(), name+":marker").Val(); text != `{"generation":1,"next":6,"step":2}` {
		t.Errorf("the marker is %s", text)
	}
}
