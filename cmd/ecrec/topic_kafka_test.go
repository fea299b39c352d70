package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestTransactionsKafka: a topic with transactions, of which some are aborted, also the last one, is trained as a file of the rows
// that were committed.
func TestTransactionsKafka(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	const steps = 20
	dir := writeTopicRun(t, drawing(t), steps)
	text, err := os.ReadFile(filepath.Join(dir, "train.csv"))
	if err != nil {
		t.Fatal(err)
	}
	to, _ := kafkaTopic(1)(t)
	hosts, name, _ := strings.Cut(strings.TrimPrefix(to, "kafka://"), "/")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(hosts), kgo.DefaultProduceTopic(name), kgo.TransactionalID("samples"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 2, 1, nil, name); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	write := func(list []string, from int, commit kgo.TransactionEndTry) {
		t.Helper()
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		var records []*kgo.Record
		for i, row := range list {
			records = append(records, &kgo.Record{Value: []byte(row), Partition: int32((from + i) % 2)})
		}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := client.EndTransaction(ctx, commit); err != nil {
			t.Fatal(err)
		}
	}
	for at := 0; at < len(rows); at += 150 {
		list := rows[at:min(at+150, len(rows))]
		write(list, at, kgo.TryCommit)
		write(list[:15], at, kgo.TryAbort) // rows that are not trained
	}
	config := filepath.Join(dir, "run.toml")
	must(t, train(config, filepath.Join(dir, "file"), "job.ranks=2", "train.iterations=0", "train.epochs=1")...)
	must(t, train(config, filepath.Join(dir, "topic"), "job.ranks=2", "train.iterations=0", "train.epochs=1", "data.format=kafka",
		fmt.Sprintf("data.train=[%q]", to))...)
	equal(t, "transactions", readSummary(t, filepath.Join(dir, "topic")), readSummary(t, filepath.Join(dir, "file")))
}
