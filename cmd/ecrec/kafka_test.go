package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// brokerScript starts and kills a broker on this machine.
const brokerScript = "../../tools/kafka-on-one-host.sh"

// broker is a real Kafka, of one broker unless it was started with more.
type broker struct{ dir, at string }

// startBroker starts a broker, which ends with the test.
func startBroker(t *testing.T, options ...string) broker {
	b := broker{dir: filepath.Join(t.TempDir(), "kafka")}
	b.at = b.do(t, append([]string{"start", b.dir}, options...)...)
	t.Cleanup(func() { b.do(t, "stop", b.dir) })
	return b
}

func (b broker) do(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, brokerScript, args...)
	cmd.Env = append(os.Environ(), "KAFKA_HEAP=128m", "KAFKA_TIER=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	return strings.TrimSpace(string(out))
}

// admin calls f with a client.
func (b broker) admin(t *testing.T, f func(context.Context, *kadm.Client) error) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(b.at, ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f(ctx, kadm.NewClient(c)); err != nil {
		t.Fatal(err)
	}
}

// makeTopic makes a topic with settings.
func (b broker) makeTopic(t *testing.T, name string, partitions int32, replicas int16, settings map[string]string) {
	t.Helper()
	all := map[string]*string{}
	for k, v := range settings {
		all[k] = &v
	}
	b.admin(t, func(ctx context.Context, c *kadm.Client) error {
		_, err := c.CreateTopic(ctx, partitions, replicas, all, name)
		return err
	})
}

// expect runs ecrec, and compares its exit code.
func expect(t *testing.T, code int, vars []string, args ...string) ended {
	t.Helper()
	got := run(t, ecrec(t), vars, args...)
	if got.code != code {
		t.Fatalf("%v: exit code %d, not %d\n%s\n%s", args, got.code, code, got.stderr, got.stdout)
	}
	return got
}

// expectLine checks that a text has one line with a part.
func expectLine(t *testing.T, text, part string) {
	t.Helper()
	n := 0
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, part) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d lines with %q in:\n%s", n, part, text)
	}
}

func expectSame(t *testing.T, a, b string) {
	t.Helper()
	if diff, err := exec.Command("diff", "-r", a, b).CombinedOutput(); err != nil {
		t.Errorf("%s and %s differ: %s", a, b, diff)
	}
}

func stepFolder(step int) string { return fmt.Sprintf("step-%012d", step) }

// sets are the settings of the runs of these tests.
func kafkaSets(to string, more ...string) []string {
	return append([]string{"job.ranks=2", "train.iterations=200", "ec.commit_every=5", "job.digests=true", "checkpoint.every=50",
		"checkpoint.keep=0", "stream.to=" + to}, more...)
}

// TestResumedKafka: runs resume from a topic of a real broker, on as many ranks and on others, and end with the digest of the
// undisturbed run. A topic whose beginning was trimmed has a base, from which runs and followers begin.
func TestResumedKafka(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	b, dir := startBroker(t), t.TempDir()
	to := "kafka://" + b.at + "/resumed"
	out := func(name string) string { return filepath.Join(dir, name) }
	config := golden("dlrm-adagrad")
	expect(t, 0, nil, train(config, out("run"), kafkaSets(to)...)...)
	want := readSummary(t, out("run")).Digest

	got := expect(t, 0, nil, append(train(config, out("a"), kafkaSets(to)...), "--resume", to+"@100?replicas=1")...)
	expectLine(t, got.stdout, "resuming after step 100 of "+to+", restored in ")
	expectSame(t, filepath.Join(out("a"), "restored", stepFolder(100)), filepath.Join(out("run"), "checkpoints", stepFolder(100)))
	if x := readSummary(t, out("a")).Digest; x != want {
		t.Errorf("digest %s, want %s", x, want)
	}
	fork := func(name, from string, more ...string) string {
		expect(t, 0, nil, append(train(config, out(name), kafkaSets("", append(more, "job.ranks=3")...)...), "--resume", from,
			"--allow", "job.ranks", "--np", "3")...)
		return readSummary(t, out(name)).Digest
	}
	if x, y := fork("b", to+"@100"), fork("c", filepath.Join(out("run"), "checkpoints", stepFolder(100))); x != y {
		t.Errorf("on 3 ranks: digest %s from the topic, %s from a checkpoint", x, y)
	}

	got = expect(t, 0, nil, "follow", to, "--to", out("trimming"), "--at", "end", "--every", "1h", "--trim")
	expectLine(t, got.stdout, "base written to "+to+".base")
	got = expect(t, 2, nil, append(train(config, out("d"), kafkaSets("")...), "--resume", to+"@100")...)
	expectLine(t, got.stderr, "the topic has no model of step 100: it was trimmed, and its oldest base is that of step 200")
	got = expect(t, 0, nil, append(train(config, out("e"), kafkaSets(to, "train.iterations=300")...), "--resume", to)...)
	expectLine(t, got.stdout, "resuming after step 200 of "+to)
	got = expect(t, 0, nil, "follow", to, "--to", out("fresh"), "--at", "300", "--trim", "--every", "0s")
	expectLine(t, got.stdout, "from the base of step 200 in "+to+".base")
	for _, step := range []int{300} {
		expectSame(t, filepath.Join(out("fresh"), stepFolder(step)), filepath.Join(out("e"), "checkpoints", stepFolder(step)))
	}
	got = expect(t, 0, nil, "follow", to, "--to", out("again"), "--at", "end")
	expectSame(t, filepath.Join(out("again"), stepFolder(300)), filepath.Join(out("e"), "checkpoints", stepFolder(300)))
	if !strings.Contains(got.stdout, "from the base of step ") {
		t.Error(got.stdout)
	}
}

// TestKafkaSettings: topics that drop records are refused, and records that are too large are named and lose nothing.
func TestKafkaSettings(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	b, dir := startBroker(t), t.TempDir()
	name := func(topic string) string { return "kafka://" + b.at + "/" + topic }
	out := func(name string) string { return filepath.Join(dir, name) }
	config := golden("dlrm-adagrad")
	for topic, setting := range map[string][2]string{"short": {"retention.ms", "60000"}, "small": {"retention.bytes", "1000000"},
		"compacted": {"cleanup.policy", "compact"}} {
		settings := map[string]string{"retention.ms": "-1"}
		settings[setting[0]] = setting[1]
		b.makeTopic(t, topic, 2, 1, settings)
		got := expect(t, 2, nil, train(config, out(topic), kafkaSets(name(topic))...)...)
		expectLine(t, got.stderr, fmt.Sprintf("topic %s has %s=%s", topic, setting[0], setting[1]))
	}
	expect(t, 0, nil, train(config, out("short"), kafkaSets(name("short")+"?retention=limited")...)...)

	limit := func(bytes string) {
		b.admin(t, func(ctx context.Context, c *kadm.Client) error {
			_, err := c.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &bytes}}, "tight")
			return err
		})
	}
	b.makeTopic(t, "tight", 2, 1, map[string]string{"retention.ms": "-1", "max.message.bytes": "1000"})
	got := expect(t, 2, nil, train(config, out("tight"), kafkaSets(name("tight"))...)...)
	expectLine(t, got.stderr, "too large for the broker: raise max.message.bytes of the topic")
	limit("2097152")
	expect(t, 0, nil, train(config, out("tight"), kafkaSets(name("tight"))...)...)
	limit("1000")
	got = expect(t, 0, nil, append(train(config, out("tight"), kafkaSets(name("tight"), "train.iterations=230")...), "--resume", "auto")...)
	if !strings.Contains(got.stdout, "too large for the broker: raise max.message.bytes of the topic") || !strings.Contains(got.stdout, "the topic has rank 0 up to step 200 of 230") {
		t.Error(got.stdout)
	}
	limit("2097152")
	expect(t, 0, nil, append(train(config, out("tight"), kafkaSets(name("tight"), "train.iterations=260")...), "--resume", "auto")...)
	expect(t, 0, nil, "follow", name("tight"), "--to", out("made"), "--at", "260")
	expectSame(t, filepath.Join(out("made"), stepFolder(260)), filepath.Join(out("tight"), "checkpoints", stepFolder(260)))
}

// TestSilentKafka: a follower reports a broker that is down, and its return.
func TestSilentKafka(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	b, dir := startBroker(t), t.TempDir()
	to, config := "kafka://"+b.at+"/silent", golden("dlrm-adagrad")
	expect(t, 0, nil, train(config, filepath.Join(dir, "run"), kafkaSets(to)...)...)
	follower, stdout, stderr := start(ecrec(t), nil, "follow", to, "--to", filepath.Join(dir, "made"))
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	b.do(t, "kill", b.dir, "1")
	time.Sleep(16 * time.Second)
	b.do(t, "restart", b.dir, "1")
	time.Sleep(4 * time.Second)
	expect(t, 0, nil, append(train(config, filepath.Join(dir, "run"), kafkaSets(to, "train.iterations=260")...), "--resume", "auto")...)
	time.Sleep(2 * time.Second)
	_ = follower.Process.Signal(syscall.SIGTERM) // Wait reports its end
	if code := exitCode(t, follower.Wait()); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	expectLine(t, stdout.String(), "the broker has not answered for 10s")
	expectLine(t, stdout.String(), "the broker answers again")
	expectLine(t, stdout.String(), "saved "+filepath.Join(dir, "made", stepFolder(260)))
}

// TestKafkaCredentials: a broker that asks for a user and a password.
func TestKafkaCredentials(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	b := startBroker(t, "--port", strconv.Itoa(port), "--set", "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
		"--set", "sasl.enabled.mechanisms=PLAIN", "--set", "sasl.mechanism.inter.broker.protocol=PLAIN",
		"--set", `listener.name.plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="right" user_ann="right";`)
	dir, config := t.TempDir(), golden("dlrm-adagrad")
	to := "kafka://" + b.at + "/asked?sasl=plain"
	right, wrong := []string{"ECREC_KAFKA_USER=ann", "ECREC_KAFKA_PASSWORD=right"}, []string{"ECREC_KAFKA_USER=ann",
		"ECREC_KAFKA_PASSWORD=wrong"}
	made := filepath.Join(dir, "made")
	for _, args := range [][]string{train(config, filepath.Join(dir, "x"), kafkaSets(to)...), {"follow", to, "--to", made},
		append(train(config, filepath.Join(dir, "x"), kafkaSets("")...), "--resume", to)} {
		code := 2
		if args[0] == "follow" {
			code = 1
		}
		got := expect(t, code, wrong, args...)
		expectLine(t, got.stderr, "refuses the user of ECREC_KAFKA_USER, or the password")
		if strings.Contains(got.stderr+got.stdout, "wrong") || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%q", got.stderr)
		}
		got = expect(t, code, []string{"ECREC_KAFKA_USER=", "ECREC_KAFKA_PASSWORD="}, args...)
		expectLine(t, got.stderr, "needs ECREC_KAFKA_USER and ECREC_KAFKA_PASSWORD in the environment")
	}
	expect(t, 0, right, train(config, filepath.Join(dir, "run"), kafkaSets(to)...)...)
	expect(t, 0, right, "follow", to, "--to", made, "--at", "end")
	got := expect(t, 0, right, append(train(config, filepath.Join(dir, "y"), kafkaSets(to)...), "--resume", to+"@100")...)
	expectLine(t, got.stdout, "resuming after step 100 of kafka://"+b.at+"/asked, restored")
}
