package bench

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
	"github.com/ecrec/ecrec/stream/kafka"
)

// topicNames names the topics of a run of a benchmark, each for one job.
type topicNames struct {
	to   string // the setting: file, or a topic of a broker
	dir  string
	run  string
	made int
}

// newTopicNames checks the setting to.
func newTopicNames(to, dir string) (topicNames, error) {
	if to != "file" {
		if err := config.CheckTopic(to); err != nil {
			return topicNames{}, settingError("to=%s: %v", to, err)
		}
	}
	return topicNames{to: to, dir: dir, run: fmt.Sprintf("%08x", rand.Uint32())}, nil
}

// next returns the name of another topic, as in stream.to.
func (n *topicNames) next() string {
	n.made++
	name := fmt.Sprintf("%s-%d", n.run, n.made)
	if n.to == "file" {
		return "file:" + filepath.Join(n.dir, name)
	}
	address, options, found := strings.Cut(n.to, "?")
	if found {
		options = "?" + options
	}
	return address + "-" + name + options
}

// place describes the place of the topics.
func (n *topicNames) place() string {
	if n.to == "file" {
		return "a folder"
	}
	return "Kafka"
}

// openTopic opens a topic by its name in stream.to.
func openTopic(e env.Env, to string) (stream.Topic, error) {
	if dir, ok := strings.CutPrefix(to, "file:"); ok {
		return stream.OpenFolder(e, dir), nil
	}
	return kafka.Open(e, to)
}
