package chaos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is the kind of a fault.
type Kind string

// The kinds.
const (
	Kill Kind = "kill"
	Node Kind = "node"
	Stop Kind = "stop"
)

// Fault is one fault to inject.
type Fault struct {
	Kind  Kind
	Rank  int
	Step  int64
	Point string
	For   time.Duration // duration of a Stop
}

// usage describes the format of specs.
const usage = "want kill:RANK@STEP[:POINT], node:RANK@STEP or stop:RANK@STEP:DURATION"

// Parse parses a spec for a job of ranks ranks. points lists the names of points; the first is that
// of a spec without a point.
func Parse(spec string, ranks int, points []string) (f Fault, err error) {
	bad := func(format string, args ...any) (Fault, error) {
		return Fault{}, fmt.Errorf("--chaos %s: %s", spec, fmt.Sprintf(format, args...))
	}
	kind, rest, _ := strings.Cut(spec, ":")
	where, last, more := strings.Cut(rest, ":")
	rank, step, at := strings.Cut(where, "@")
	f = Fault{Kind: Kind(kind), Point: points[0]}
	if !at || !slices.Contains([]Kind{Kill, Node, Stop}, f.Kind) {
		return bad("%s", usage)
	}
	if f.Rank, err = strconv.Atoi(rank); err != nil || f.Rank < 0 || f.Rank >= ranks {
		return bad("rank %q is not one of 0 to %d", rank, ranks-1)
	}
	if f.Step, err = strconv.ParseInt(step, 10, 64); err != nil || f.Step < 1 {
		return bad("step %q is not a positive number", step)
	}
	switch {
	case f.Kind == Stop:
		if f.For, err = time.ParseDuration(last); err != nil || f.For <= 0 {
			return bad("%q is not a duration such as 3s", last)
		}
	case more && f.Kind == Kill:
		if f.Point = last; !slices.Contains(points, last) {
			return bad("unknown point %q; --chaos list lists them", last)
		}
	case more:
		return bad("%s", usage)
	}
	return f, nil
}
