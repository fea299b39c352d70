// Redis-rows keeps the rows of a model in Redis. It reads the topic that `ecrec follow --rows-to` writes, and makes all rows of a marker
// visible at once. README.md beside it describes the keys, and how to read them.
//
// It is an example to copy: it uses nothing of ecrec but the form of the topic.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// youngFor is the age up to which a marker is right although newer rows follow it: the broker removes no record for a newer one within
// min.compaction.lag.ms, which is an hour in topics that ecrec makes. The clocks of broker and store may differ by the rest.
const youngFor = 30 * time.Minute

// flushRows is how many rows of a new generation are kept in memory. No reader sees them before its first marker.
const flushRows = 10_000

// position is the part of the marker in Redis that the store itself needs.
type position struct {
	Generation int64 `json:"generation"` // in the names of the keys of rows: the offset of its first record
	Next       int64 `json:"next"`       // the offset of the next record
}

// fieldsOfCommand is how many rows one command of Redis sets.
const fieldsOfCommand = 1000

// store is the state between two records.
type store struct {
	db       *redis.Client
	name     string
	at       position
	has      bool              // the generation has a first record: rows before it are void
	shown    int64             // the generation that readers see; -1: none
	changed  map[string][]byte // rows by TABLE/ID since the last marker; nil: removed
	accepted func(marker []byte)
}

func (s *store) markerKey() string                 { return s.name + ":marker" }
func (s *store) generationsKey() string            { return s.name + ":generations" }
func (s *store) tablesKey(generation int64) string { return fmt.Sprintf("%s:%d", s.name, generation) }
func (s *store) rowsKey(generation int64, t string) string {
	return fmt.Sprintf("%s:%d:%s", s.name, generation, t)
}

// load reads the position from Redis. Without one, the store begins at the beginning of the topic.
func (s *store) load(ctx context.Context) error {
	s.at, s.shown, s.changed, s.has = position{}, -1, map[string][]byte{}, false
	text, err := s.db.Get(ctx, s.markerKey()).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s.at)
	}
	if err != nil {
		return err
	}
	s.shown, s.has = s.at.Generation, true
	return s.dropOthers(ctx)
}

// take takes the next record. last reports that the topic has none behind it.
func (s *store) take(ctx context.Context, r *kgo.Record, last bool) error {
	switch key := string(r.Key); key {
	case "begin": // the rows that follow are a model of their own
		s.at.Generation, s.has = r.Offset, true
		clear(s.changed)
		if s.at.Generation == s.shown {
			return nil
		}
		if err := s.drop(ctx, s.at.Generation); err != nil { // what a store that ended here has left
			return err
		}
		return s.db.SAdd(ctx, s.generationsKey(), s.at.Generation).Err()
	case "marker":
		if !s.has || !last && time.Since(r.Timestamp) > youngFor {
			return nil // the rows of a later marker may be missing before it: wait for that one
		}
		return s.show(ctx, r)
	default:
		if !s.has {
			return nil
		}
		s.changed[key] = r.Value
		if len(s.changed) >= flushRows && s.at.Generation != s.shown {
			return s.exec(ctx, s.db.Pipeline())
		}
		return nil
	}
}

// show makes the rows of a marker visible, in one transaction with the marker and the position.
func (s *store) show(ctx context.Context, r *kgo.Record) error {
	s.at.Next = r.Offset + 1
	marker := map[string]json.RawMessage{}
	if err := json.Unmarshal(r.Value, &marker); err != nil {
		return fmt.Errorf("the marker at offset %d: %w", r.Offset, err)
	}
	marker["generation"] = strconv.AppendInt(nil, s.at.Generation, 10)
	marker["next"] = strconv.AppendInt(nil, s.at.Next, 10)
	text, err := json.Marshal(marker)
	if err != nil {
		return err
	}
	tx := s.db.TxPipeline()
	tx.Set(ctx, s.markerKey(), text, 0)
	if err := s.exec(ctx, tx); err != nil {
		return err
	}
	replaced := s.shown != s.at.Generation
	s.shown = s.at.Generation
	if s.accepted != nil {
		s.accepted(text)
	}
	if replaced {
		return s.dropOthers(ctx)
	}
	return nil
}

// dropOthers removes all generations but the one that readers see.
func (s *store) dropOthers(ctx context.Context) error {
	all, err := s.db.SMembers(ctx, s.generationsKey()).Result()
	for _, text := range all {
		if g, bad := strconv.ParseInt(text, 10, 64); bad == nil && g != s.shown && err == nil {
			err = s.drop(ctx, g)
		}
	}
	return err
}

// exec adds the rows that changed to a pipeline, and executes it.
func (s *store) exec(ctx context.Context, tx redis.Pipeliner) error {
	sets := map[string][]any{} // by table: an ID, a row, and so on
	for key, value := range s.changed {
		i := strings.LastIndexByte(key, '/')
		if i < 0 {
			return fmt.Errorf("the key %q is no TABLE/ID: is this a topic of rows?", key)
		}
		table, id := key[:i], key[i+1:]
		if value == nil {
			tx.HDel(ctx, s.rowsKey(s.at.Generation, table), id)
			continue
		}
		if sets[table] = append(sets[table], id, value); len(sets[table]) == 2*fieldsOfCommand {
			tx.HSet(ctx, s.rowsKey(s.at.Generation, table), sets[table]...)
			sets[table] = nil
		}
	}
	for table, fields := range sets {
		if len(fields) > 0 {
			tx.HSet(ctx, s.rowsKey(s.at.Generation, table), fields...)
		}
		tx.SAdd(ctx, s.tablesKey(s.at.Generation), table)
	}
	if _, err := tx.Exec(ctx); err != nil {
		return err
	}
	clear(s.changed)
	return nil
}

// drop removes a generation.
func (s *store) drop(ctx context.Context, generation int64) error {
	tables, err := s.db.SMembers(ctx, s.tablesKey(generation)).Result()
	if err != nil {
		return err
	}
	keys := []string{s.tablesKey(generation)}
	for _, t := range tables {
		keys = append(keys, s.rowsKey(generation, t))
	}
	if err := s.db.Unlink(ctx, keys...).Err(); err != nil {
		return err
	}
	return s.db.SRem(ctx, s.generationsKey(), generation).Err()
}

// follow reads the topic until the context ends, or an error occurs. It continues at the last marker in Redis.
func (s *store) follow(ctx context.Context, brokers []string, topic string) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	from := kgo.NewOffset().AtStart()
	if s.shown >= 0 {
		ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
		if err != nil {
			return err
		}
		if end, _ := ends.Lookup(topic, 0); end.Err != nil || end.Offset < s.at.Next {
			return fmt.Errorf("the topic ends before offset %d, where %s continues: is it another one? Remove the key to begin again (%w)",
				s.at.Next, s.markerKey(), errors.Join(end.Err))
		}
		from = from.At(s.at.Next)
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: from}})
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errs := fetches.Errors(); len(errs) > 0 {
			return errs[0].Err
		}
		var failed error
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				if failed == nil {
					failed = s.take(ctx, r, r.Offset+1 == p.HighWatermark)
				}
			}
		})
		if failed != nil {
			return failed
		}
	}
}

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "Kafka: HOST:PORT,...")
	topic := flag.String("topic", "", "the topic of ecrec follow --rows-to")
	address := flag.String("redis", "127.0.0.1:6379", "Redis: HOST:PORT; the password is in REDIS_PASSWORD")
	name := flag.String("name", "", "begins the keys in Redis, as in {ctr}:marker; default: {TOPIC}")
	flag.Parse()
	if *topic == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if *name == "" {
		*name = "{" + *topic + "}"
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A transaction takes as long as Redis needs for a marker.
	options := &redis.Options{Addr: *address, Password: os.Getenv("REDIS_PASSWORD"), ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	s := &store{db: redis.NewClient(options), name: *name,
		accepted: func(marker []byte) { log.Printf("%s", marker) }}
	defer s.db.Close()
	for ctx.Err() == nil {
		if err := s.follow(ctx, strings.Split(*brokers, ","), *topic); err != nil && ctx.Err() == nil {
			log.Printf("%v; it is tried again in 5s", err)
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
		}
	}
}
