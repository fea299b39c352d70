package stream

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// IsSame reports whether two names are of one topic: of one folder, or of a topic with the same name and a broker in common.
func IsSame(a, b string) bool {
	if a == b {
		return true
	}
	first, isDir := folderOf(a)
	second, alsoDir := folderOf(b)
	if isDir != alsoDir {
		return false
	}
	if isDir {
		return isSameFolder(first, second)
	}
	brokers, topic := splitName(a)
	others, other := splitName(b)
	return topic == other && slices.ContainsFunc(brokers, func(host string) bool { return slices.Contains(others, host) })
}

// brokerScheme begins the name of a topic of a broker. Other names are of folders, with "file:" or without.
const brokerScheme = "kafka://"

func folderOf(name string) (dir string, ok bool) {
	return strings.TrimPrefix(name, "file:"), !strings.HasPrefix(name, brokerScheme)
}

func isSameFolder(a, b string) bool {
	p, err := os.Stat(a)
	q, also := os.Stat(b)
	if err == nil && also == nil {
		return os.SameFile(p, q)
	}
	a, err = filepath.Abs(a)
	b, also = filepath.Abs(b)
	return err == nil && also == nil && a == b
}

// splitName splits the name of a topic of brokers, without its options.
func splitName(name string) (brokers []string, topic string) {
	name, _, _ = strings.Cut(strings.TrimPrefix(name, brokerScheme), "?")
	hosts, topic, _ := strings.Cut(name, "/")
	return strings.Split(hosts, ","), topic
}
