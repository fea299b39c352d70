package transport

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Link is what WrapLink gives every rank.
type Link struct {
	BytesPerS float64 // in each direction
	Latency   time.Duration
}

const (
	// pieceFor is how long a piece takes to leave: no less, since each costs a
	// wake-up at both ends, within these lengths.
	pieceFor      = 50 * time.Microsecond
	minPieceBytes = 4 << 10
	maxPieceBytes = 64 << 10

	minBytesPerS = 1e3
)

// units of a bandwidth, with the bytes per second of one.
var units = []struct {
	name      string
	bytesPerS float64
}{
	{"Gb/s", 1e9 / 8}, {"Mb/s", 1e6 / 8}, {"GB/s", 1e9}, {"MB/s", 1e6},
}

// ParseLink reads a bandwidth, in Gb/s or Mb/s (bits) or GB/s or MB/s (bytes), and
// a latency: "10Gb/s,50us".
func ParseLink(spec string) (Link, error) {
	wrong := func(what string) (Link, error) {
		return Link{}, fmt.Errorf("link %q: %s; write a bandwidth and a latency, as in 10Gb/s,50us (units: Gb/s, Mb/s, GB/s, MB/s)", spec, what)
	}
	bandwidth, latency, ok := strings.Cut(spec, ",")
	if !ok {
		return wrong("there is no comma")
	}
	var l Link
	for _, u := range units {
		number, ok := strings.CutSuffix(strings.TrimSpace(bandwidth), u.name)
		if !ok {
			continue
		}
		x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil {
			return wrong(fmt.Sprintf("%q is not a number", number))
		}
		l.BytesPerS = x * u.bytesPerS
	}
	if !(l.BytesPerS >= minBytesPerS) || math.IsInf(l.BytesPerS, 0) {
		return wrong(fmt.Sprintf("%q is not a bandwidth of 1,000 bytes per second or more", bandwidth))
	}
	d, err := time.ParseDuration(strings.TrimSpace(latency))
	if err != nil || d < 0 || d > maxDelay {
		return wrong(fmt.Sprintf("%q is not a latency from 0 to %v", latency, maxDelay))
	}
	l.Latency = d
	return l, nil
}

// takes is how long n bytes take to pass a port.
func (l Link) takes(n int) time.Duration {
	return time.Duration(math.Ceil(float64(n) / l.BytesPerS * float64(time.Second)))
}

// pieceBytes is how messages are cut; both ends do it alike.
func (l Link) pieceBytes() int {
	return int(min(max(l.BytesPerS*pieceFor.Seconds(), minPieceBytes), maxPieceBytes))
}
