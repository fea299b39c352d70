package config

import (
	"errors"
	"fmt"
	"strings"
)

// CheckTopic finds mistakes in the name of a topic: file:DIR, or kafka://HOST:PORT/TOPIC with options.
func CheckTopic(to string) error {
	if dir, ok := strings.CutPrefix(to, "file:"); ok {
		if dir == "" || strings.HasPrefix(dir, "//") {
			return fmt.Errorf("%q is not file:DIR", to)
		}
		return nil
	}
	rest, ok := strings.CutPrefix(to, "kafka://")
	if !ok {
		return fmt.Errorf("%q is neither kafka://HOST:PORT/TOPIC nor file:DIR", to)
	}
	rest, _, _ = strings.Cut(rest, "?")
	hosts, topic, _ := strings.Cut(rest, "/")
	switch {
	case topic == "" || strings.Contains(topic, "/"):
		return fmt.Errorf("%q names no topic: use kafka://HOST:PORT/TOPIC", to)
	case strings.Contains(hosts, "@"):
		return errors.New("credentials are not part of the name: set ECREC_KAFKA_USER and ECREC_KAFKA_PASSWORD")
	}
	for _, host := range strings.Split(hosts, ",") {
		if name, port, ok := strings.Cut(host, ":"); !ok || name == "" || port == "" {
			return fmt.Errorf("%q is not HOST:PORT", host)
		}
	}
	return nil
}

// checkStream checks that a stream has a topic, and may wait.
func (c *Config) checkStream(src *source) error {
	s := c.Stream
	if s.Backlog < 1 {
		return src.errorf("stream.backlog", "%d bytes are none; use at least 1MiB", s.Backlog)
	}
	if s.To == "" {
		return nil
	}
	if err := CheckTopic(s.To); err != nil {
		return src.errorf("stream.to", "%v", err)
	}
	return nil
}
