package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
)

// Scheme begins the name of a topic.
const Scheme = "kafka://"

// Variables of the environment with the credentials for SASL.
const (
	UserVariable     = "ECREC_KAFKA_USER"
	PasswordVariable = "ECREC_KAFKA_PASSWORD"
)

// requestFor is how long a request may take in all. It is longer than the election of a new leader.
const requestFor = 15 * time.Second

// ackFor is how long Sync waits for acknowledgements until it reports that there are none.
const ackFor = 10 * time.Second

// place is a parsed name.
type place struct {
	name     string // without query
	brokers  []string
	topic    string
	tls      bool
	sasl     string
	replicas int16
	limited  bool // records that the broker drops by itself are accepted
	samples  bool // see OpenSamples
	codec    kgo.CompressionCodec
}

// codecs compress what is sent. The default is none: weights of rows hardly become smaller.
var codecs = map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "lz4": kgo.Lz4Compression(), "snappy": kgo.SnappyCompression(),
	"zstd": kgo.ZstdCompression()}

// Check finds mistakes in the name of a topic. It does no I/O.
func Check(name string) error {
	_, err := parse(name)
	return err
}

func parse(name string) (p place, err error) {
	p.replicas, p.codec = -1, kgo.NoCompression()
	rest, ok := strings.CutPrefix(name, Scheme)
	if !ok {
		return p, fmt.Errorf("%q does not begin with %s", name, Scheme)
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, topic, ok := strings.Cut(rest, "/")
	if p.topic = topic; !ok || topic == "" || hosts == "" || strings.Contains(topic, "/") {
		return p, fmt.Errorf("%q is not kafka://HOST:PORT/TOPIC", name)
	}
	for _, host := range strings.Split(hosts, ",") {
		if !strings.Contains(host, ":") || strings.Contains(host, "@") {
			return p, fmt.Errorf("%q is not HOST:PORT; credentials are in %s and %s", host, UserVariable, PasswordVariable)
		}
		p.brokers = append(p.brokers, host)
	}
	p.name = Scheme + rest
	values, err := url.ParseQuery(query)
	if err != nil {
		return p, fmt.Errorf("%q: %w", query, err)
	}
	for key, value := range values {
		switch x := value[0]; key {
		case "tls":
			p.tls, err = strconv.ParseBool(x)
		case "sasl":
			if p.sasl = x; x != "plain" && x != "scram-sha-256" && x != "scram-sha-512" {
				err = errors.New("use plain, scram-sha-256 or scram-sha-512")
			}
		case "replicas":
			var n int64
			n, err = strconv.ParseInt(x, 10, 16)
			p.replicas = int16(n)
		case "retention":
			if p.limited = x == "limited"; !p.limited {
				err = errors.New("use limited, or leave it out")
			}
		case "compression":
			if p.codec, ok = codecs[x]; !ok {
				err = errors.New("use none, lz4, snappy or zstd")
			}
		default:
			err = errors.New("there is no such option: use tls, sasl, replicas, retention or compression")
		}
		if err != nil {
			return p, fmt.Errorf("%s=%s: %w", key, value[0], err)
		}
	}
	return p, nil
}

// topic is a topic of a broker.
type topic struct {
	place
	env    env.Env
	admin  *kadm.Client
	isBase bool         // admin is of another topic, which closes it
	found  *atomic.Bool // a broker has answered
}

// Open is the topic of a name. It connects to the broker: a broker that cannot be reached is an Unreachable.
func Open(e env.Env, name string) (stream.Topic, error) { return openTopic(e, name, false) }

// New is the topic of a name. It connects when it is used.
func New(e env.Env, name string) (stream.Topic, error) {
	t, _, err := newTopic(e, name)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Unreachable is the error of brokers that do not answer when their topic is opened, or whose certificate is refused.
type Unreachable struct {
	Brokers []string
	Err     error
}

func (e *Unreachable) Error() string {
	brokers := strings.Join(e.Brokers, ",")
	if refused := (*tls.CertificateVerificationError)(nil); errors.As(e.Err, &refused) {
		return fmt.Sprintf("the certificate of %s is refused: %v; SSL_CERT_FILE may name the file of its CA", brokers, refused.Err)
	}
	return fmt.Sprintf("%s does not answer: %v; is a broker there, with these credentials?", brokers, e.Err)
}

func (e *Unreachable) Unwrap() error { return e.Err }

// OpenSamples is a topic of other writers, with transactions or without. Read returns committed records only, and the markers of
// transactions, as records without bytes: a reader that waits for an offset finds then that it was passed.
func OpenSamples(e env.Env, name string) (stream.Topic, error) { return openTopic(e, name, true) }

func openTopic(e env.Env, name string, samples bool) (stream.Topic, error) {
	t, c, err := newTopic(e, name)
	if err != nil {
		return nil, err
	}
	t.samples = samples
	if err := t.doOnce(c.Ping); err != nil {
		c.Close()
		if errors.Is(err, kerr.SaslAuthenticationFailed) {
			return nil, fmt.Errorf("%s refuses the user of %s, or the password: %w", strings.Join(t.brokers, ","), UserVariable, err)
		}
		return nil, &Unreachable{t.brokers, err}
	}
	return t, nil
}

func newTopic(e env.Env, name string) (*topic, *kgo.Client, error) {
	p, err := parse(name)
	if err != nil {
		return nil, nil, err
	}
	c, err := p.newClient()
	if err != nil {
		return nil, nil, err
	}
	return &topic{place: p, env: e, admin: kadm.NewClient(c), found: new(atomic.Bool)}, c, nil
}

// newClient makes a client.
func (p *place) newClient(more ...kgo.Opt) (*kgo.Client, error) {
	o := append([]kgo.Opt{kgo.SeedBrokers(p.brokers...), kgo.ClientID("ecrec"), kgo.RetryTimeout(requestFor), kgo.DialTimeout(5 * time.Second),
		kgo.MetadataMinAge(50 * time.Millisecond)}, more...)
	if p.tls {
		o = append(o, kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if p.sasl != "" {
		user, password := os.Getenv(UserVariable), os.Getenv(PasswordVariable)
		if user == "" || password == "" {
			return nil, fmt.Errorf("sasl=%s needs %s and %s in the environment", p.sasl, UserVariable, PasswordVariable)
		}
		var m sasl.Mechanism
		switch a := (scram.Auth{User: user, Pass: password}); p.sasl {
		case "plain":
			m = plain.Auth{User: user, Pass: password}.AsMechanism()
		case "scram-sha-256":
			m = a.AsSha256Mechanism()
		default:
			m = a.AsSha512Mechanism()
		}
		o = append(o, kgo.SASL(m))
	}
	return kgo.NewClient(o...)
}

// do runs a request. It repeats one that fails while a broker is lost and others take its place, once a broker has answered.
func (t *topic) do(f func(context.Context) error) error {
	for until := t.env.Now() + requestFor; ; t.env.Sleep(100 * time.Millisecond) {
		if err := t.doOnce(f); err == nil || !t.found.Load() || !passes(err) || t.env.Now() >= until {
			return err
		}
	}
}

// passes reports whether an error may be that of a broker that was just lost.
func passes(err error) bool {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" { // which the client does not repeat for each broker of a request
		var name *net.DNSError
		return !errors.As(err, &name) || !name.IsNotFound
	}
	// A connection that ends before its first answer may mean that the credentials are missing. Those have passed when the topic was opened.
	return errors.As(err, new(*kgo.ErrFirstReadEOF)) || kgo.IsRetryableBrokerErr(err) || kerr.IsRetriable(err)
}

// doOnce runs a request.
func (t *topic) doOnce(f func(context.Context) error) error {
	err := t.env.Do("ask the broker", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), requestFor)
		defer cancel()
		return f(ctx)
	})
	if err == nil {
		t.found.Store(true)
	}
	return err
}

// Name implements stream.Topic. It has no options, which readers and writers may have differently.
func (t *topic) Name() string { return t.name }

// Close implements stream.Topic.
func (t *topic) Close() {
	if !t.isBase {
		t.admin.Close()
	}
}

// baseSuffix follows the name of a topic in that of its bases.
const baseSuffix = ".base"

// Base implements stream.Topic.
func (t *topic) Base() stream.Topic {
	b := *t
	b.topic, b.name, b.isBase = t.topic+baseSuffix, t.name+baseSuffix, true
	return &b
}

// kept are the settings of a topic that keeps its records.
var kept = []struct{ key, value string }{{"cleanup.policy", "delete"}, {"retention.ms", "-1"}, {"retention.bytes", "-1"}}

// Keeps implements stream.Topic. Settings that this user may not read are not checked.
func (t *topic) Keeps() error {
	if t.limited {
		return nil
	}
	var all kadm.ResourceConfigs
	if err := t.do(func(ctx context.Context) (err error) {
		all, err = t.admin.DescribeTopicConfigs(ctx, t.topic)
		return err
	}); err != nil || len(all) != 1 || all[0].Err != nil {
		return nil
	}
	for _, c := range all[0].Configs {
		for _, k := range kept {
			if c.Key == k.key && c.Value != nil && *c.Value != k.value {
				return fmt.Errorf("topic %s has %s=%s, so the broker drops records that readers need: set it to %s, or accept that with ?retention=limited",
					t.topic, k.key, *c.Value, k.value)
			}
		}
	}
	return nil
}

// Partitions implements stream.Topic.
func (t *topic) Partitions() (n int, err error) {
	err = t.do(func(ctx context.Context) error {
		all, err := t.admin.ListTopics(ctx, t.topic)
		if err != nil {
			return err
		}
		x := all[t.topic]
		if errors.Is(x.Err, kerr.UnknownTopicOrPartition) {
			return nil
		}
		n = len(x.Partitions)
		return x.Err
	})
	return n, err
}

// Create implements stream.Topic.
func (t *topic) Create(partitions int) error {
	largest := strconv.Itoa(4 * stream.MaxPayload)
	settings := map[string]*string{"max.message.bytes": &largest}
	for _, k := range kept {
		settings[k.key] = &k.value
	}
	if t.replicas > 2 { // a record that is acknowledged survives the loss of a broker
		two := "2"
		settings["min.insync.replicas"] = &two
	}
	return t.createWith(partitions, settings)
}

// createWith makes a topic with some settings.
func (t *topic) createWith(partitions int, settings map[string]*string) error {
	err := t.do(func(ctx context.Context) error {
		_, err := t.admin.CreateTopic(ctx, int32(partitions), t.replicas, settings, t.topic)
		if errors.Is(err, kerr.TopicAlreadyExists) {
			err = nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("topic %s cannot be made: %w", t.topic, err)
	}
	for until := t.env.Now() + requestFor; t.env.Now() < until; t.env.Sleep(20 * time.Millisecond) { // until all brokers know it
		if n, err := t.Partitions(); err == nil && n == partitions {
			return nil
		}
	}
	return fmt.Errorf("topic %s was made, and does not appear", t.topic)
}

// mostBatch is the most bytes of a batch of records: a broker takes 1,048,588 by default.
const mostBatch = 1_000_000

// Open implements stream.Topic.
func (t *topic) Open(number int) (stream.Partition, error) {
	p := &partition{number: int32(number), monitor: t.env.Monitor("kafka partition"), consumed: -1, answers: &answers{env: t.env}}
	var more []kgo.Opt
	largest := int32(8 << 20)
	if t.samples {
		largest = 1 << 20 // there may be many partitions
		more = append(more, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	}
	// Lost records are an error, for readers and for writers. By default the client continues behind them.
	more = append(more, kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.StopProducerOnDataLossDetected(),
		kgo.AlwaysRetryEOF()) // the credentials were those of the topic, which has connected
	c, err := t.newClient(append(more, kgo.WithHooks(p.answers), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(t.codec),
		kgo.ProducerLinger(0), kgo.ProducerBatchMaxBytes(mostBatch), kgo.MaxBufferedBytes(2*mostBuffered), kgo.MaxBufferedRecords(1<<20),
		kgo.FetchMaxBytes(16<<20), kgo.FetchMaxPartitionBytes(largest), kgo.FetchMaxWait(100*time.Millisecond))...)
	if err != nil {
		return nil, err
	}
	p.topic, p.client = &topic{place: t.place, env: t.env, admin: kadm.NewClient(c), found: t.found}, c
	return p, nil
}
