package config

import (
	"path"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/data"
)

// Kafka is the order and the end of the samples of a topic, with data.format = "kafka".
type Kafka struct {
	Columns []string `toml:"columns"` // of a message, in the order of its fields; empty: as [data.csv] lists them
	Begin   string   `toml:"begin"`   // of a run that does not resume
	AtEnd   string   `toml:"at_end"`
	Idle    Duration `toml:"idle"` // 0: for ever
}

// The values of data.kafka.begin and data.kafka.at_end.
const (
	BeginFirst = "first" // with the first message that the topic has
	BeginLast  = "last"  // with the first message that is written after the start of the run
	AtEndStop  = "stop"  // the messages that are there at the start of the run are all
	AtEndWait  = "wait"  // the run waits for more
)

// ReadsTopic reports whether the training data is a topic.
func (c *Config) ReadsTopic() bool {
	format, ok := data.FindFormat(c.Data.Format)
	return ok && format.Topic
}

// TopicOf is the name of a topic without its brokers, or without the folders above it.
func TopicOf(name string) string {
	name, _, _ = strings.Cut(name, "?")
	return path.Base(strings.TrimPrefix(name, "file:"))
}

// checkTopic checks that the training data is one topic, which is read once and in its order.
func (c *Config) checkTopic(src *source) error {
	d, k := c.Data, c.Data.Kafka
	if !c.ReadsTopic() {
		return nil
	}
	if len(d.Train) != 1 {
		return src.errorf("data.train", "names %d topics; use one, like [\"kafka://HOST:PORT/TOPIC\"]", len(d.Train))
	}
	if err := CheckTopic(d.Train[0]); err != nil {
		return src.errorf("data.train", "%v", err)
	}
	if c.Stream.To != "" && slices.Equal(d.Train, []string{c.Stream.To}) {
		return src.errorf("stream.to", "%q is the topic that the samples are read from; use another one", c.Stream.To)
	}
	split, isSplit := c.EvalSplit()
	switch {
	case isSplit:
		return src.errorf("data.eval", "%v: a topic is read once, and cannot be split; name files", split)
	case d.Shuffle != "none":
		return src.errorf("data.shuffle", "%q: samples of a topic are trained in their order; use \"none\", or leave it out", d.Shuffle)
	case c.Model.Tables.IsCounted():
		return src.errorf("model.tables", "rows are counted in files, and the samples of a topic have no end; list the rows of each table")
	case c.Train.Epochs > 1:
		return src.errorf("train.epochs", "%d: a topic is read once; use epochs = 1 for all of its samples, or iterations", c.Train.Epochs)
	case c.Ranks.Readers > 1:
		return src.errorf("ranks.readers", "%d: one rank reads a topic, and sends the others their samples; use 1, or none", c.Ranks.Readers)
	case k.Idle < 0:
		return src.errorf("data.kafka.idle", "%v is negative; use 0 to wait for ever", k.Idle)
	case k.Idle > 0 && k.AtEnd == AtEndStop:
		return src.errorf("data.kafka.idle", "has no effect with data.kafka.at_end = %q; use %q", AtEndStop, AtEndWait)
	}
	return nil
}
