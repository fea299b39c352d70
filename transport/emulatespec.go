package transport

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// EmulatedLink is the link of each rank: see EmulateLink.
type EmulatedLink struct {
	BytesPerS float64 // in each direction
	Latency   time.Duration
}

const (
	// pieceFor is the time that a piece takes to leave, within the limits of its length.
	// It is not shorter because each piece costs a wake-up at both ends.
	pieceFor      = 50 * time.Microsecond
	minPieceBytes = 4 << 10
	maxPieceBytes = 64 << 10

	minBytesPerS = 1e3
)

// units of a bandwidth, in bytes per second.
var units = []struct {
	name      string
	bytesPerS float64
}{
	{"Gb/s", 1e9 / 8}, {"Mb/s", 1e6 / 8}, {"GB/s", 1e9}, {"MB/s", 1e6},
}

// ParseEmulatedLink parses a bandwidth, in Gb/s or Mb/s (bits) or GB/s or MB/s (bytes),
// and a latency: "10Gb/s,50us".
func ParseEmulatedLink(spec string) (EmulatedLink, error) {
	wrong := func(what string) (EmulatedLink, error) {
		return EmulatedLink{}, fmt.Errorf("link %q: %s; write a bandwidth and a latency, as in 10Gb/s,50us (units: Gb/s, Mb/s, GB/s, MB/s)",
			spec, what)
	}
	bandwidth, latency, ok := strings.Cut(spec, ",")
	if !ok {
		return wrong("the comma is missing")
	}
	var l EmulatedLink
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

// String returns the link as ParseEmulatedLink reads it.
func (l EmulatedLink) String() string {
	u := units[0]
	if l.BytesPerS < u.bytesPerS {
		u = units[1]
	}
	return fmt.Sprintf("%g%s,%s", l.BytesPerS/u.bytesPerS, u.name, strings.Replace(l.Latency.String(), "\u00b5", "u", 1))
}

// passTime returns the time that n bytes take to pass a port.
func (l EmulatedLink) passTime(n int) time.Duration {
	return time.Duration(math.Ceil(float64(n) / l.BytesPerS * float64(time.Second)))
}

// pieceBytes returns the length of a piece, which is the same at both ends.
func (l EmulatedLink) pieceBytes() int {
	return int(min(max(l.BytesPerS*pieceFor.Seconds(), minPieceBytes), maxPieceBytes))
}
