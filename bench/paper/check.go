package paper

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A check of measured values takes their spreads into account: it holds or fails only if it does so for all values within the spreads, else
// it is unclear. A check of a time that was taken once is unclear. One of times with fewer repeats than an interval of 95 % needs agrees or
// disagrees: it is Few, and decides no figure. Counts have no spread, so their checks are always clear. A value that is missing (N = 0)
// fails its check.

// above checks that a is greater than b.
func above(text string, a, b Point) Check {
	return judge(text, a.Least > b.Most, a.Most <= b.Least, seen(a)+" and "+seen(b), a, b)
}

// below checks that a is less than b.
func below(text string, a, b Point) Check {
	return judge(text, a.Most < b.Least, a.Least >= b.Most, seen(a)+" and "+seen(b), a, b)
}

// atLeast checks that a value is at least a bound.
func atLeast(text string, a Point, bound float64) Check {
	return judge(text, a.Least >= bound, a.Most < bound, seen(a), a)
}

// atMost checks that a value is at most a bound.
func atMost(text string, a Point, bound float64) Check {
	return judge(text, a.Most <= bound, a.Least > bound, seen(a), a)
}

// within checks that a value lies between two bounds.
func within(text string, a Point, least, most float64) Check {
	return judge(text, a.Least >= least && a.Most <= most, a.Most < least || a.Least > most, seen(a), a)
}

// near checks that a value differs from another one by at most a share of that: 0.1 is 10 %.
func near(text string, a Point, to, share float64) Check {
	margin := math.Abs(to) * share
	return within(text, a, to-margin, to+margin)
}

// aboveIfKnown and nearIfKnown are above and near. They are unclear if a value is not known (overPositive).
func aboveIfKnown(text string, a, b Point) Check {
	if a.N == 0 || b.N == 0 {
		return unknownRatio(text)
	}
	return above(text, a, b)
}

func nearIfKnown(text string, a Point, to, share float64) Check {
	if a.N == 0 {
		return unknownRatio(text)
	}
	return near(text, a, to, share)
}

func unknownRatio(text string) Check {
	return Check{Text: text, Unclear: true, Seen: "the spread of the value to divide by contains 0"}
}

// rising checks that each value is greater than the one before it.
func rising(text string, points []Point) Check {
	return each(text, points, func(a, b Point) Check { return above(text, b, a) })
}

// falling checks that each value is less than the one before it.
func falling(text string, points []Point) Check {
	return each(text, points, func(a, b Point) Check { return below(text, b, a) })
}

// flat checks that the greatest value is at most a share above the least: 0.1 is 10 %.
func flat(text string, points []Point, share float64) Check {
	if len(points) < 2 {
		return each(text, points, nil)
	}
	byY := func(a, b Point) int { return int(math.Copysign(1, a.Y-b.Y)) }
	least, most := slices.MinFunc(points, byY), slices.MaxFunc(points, byY)
	return judge(text, most.Most <= least.Least*(1+share), most.Least > least.Most*(1+share), seenAll(points), points...)
}

// growsLess checks that from the first to the last point y grows by a smaller factor than x does.
func growsLess(text string, points []Point) Check {
	if len(points) < 2 {
		return each(text, points, nil)
	}
	a, b := points[0], points[len(points)-1]
	grows := b.X / a.X
	return judge(text, b.Most/a.Least < grows, b.Least/a.Most >= grows,
		fmt.Sprintf("%s to %s while x grows %s times", seen(a), seen(b), number(grows)), a, b)
}

// holdsIf is a check whose verdict the caller computes, for values without a spread.
func holdsIf(text string, holds bool, format string, args ...any) Check {
	return Check{Text: text, Holds: holds, Seen: fmt.Sprintf(format, args...)}
}

// all joins checks into one, which holds if all hold. It is as weak as the weakest of the checks that decide it.
func all(text string, checks ...Check) Check {
	joined := Check{Text: text, Holds: len(checks) > 0}
	var sees []string
	fails, disagrees := false, false
	for _, c := range checks {
		joined.Holds = joined.Holds && c.Holds
		joined.Unclear = joined.Unclear || c.Unclear
		joined.Few = joined.Few || c.Few
		fails = fails || c.fails() && !c.Few
		disagrees = disagrees || c.fails()
		sees = append(sees, c.Seen)
	}
	joined.Unclear = joined.Unclear && !disagrees
	joined.Few = joined.Few && !fails && !joined.Unclear
	joined.Seen = strings.Join(sees, "; ")
	return joined
}

// fails reports whether the values contradict the check.
func (c Check) fails() bool { return !c.Holds && !c.Unclear }

// verdict returns the class and the words of a check on the page.
func (c Check) verdict() (class, words string) {
	switch {
	case c.Unclear:
		return "unclear", "not told apart"
	case c.Few && c.Holds:
		return "agrees", string(ShapeAgrees)
	case c.Few:
		return "disagrees", string(ShapeDisagrees)
	case c.Holds:
		return "holds", "holds"
	}
	return "differs", "fails"
}

// each checks neighbouring points.
func each(text string, points []Point, check func(a, b Point) Check) Check {
	if len(points) < 2 {
		return Check{Text: text, Seen: fmt.Sprintf("%d values, too few", len(points))}
	}
	var checks []Check
	for i := range points[1:] {
		checks = append(checks, check(points[i], points[i+1]))
	}
	c := all(text, checks...)
	c.Seen = seenAll(points)
	return c
}

// judge makes a check that holds, fails, or is unclear if it does neither.
func judge(text string, holds, fails bool, sees string, points ...Point) Check {
	c := Check{Text: text, Seen: sees}
	if slices.ContainsFunc(points, func(p Point) bool { return p.N == 0 }) {
		c.Seen = "a value is missing: " + sees
		return c
	}
	if slices.ContainsFunc(points, func(p Point) bool { return p.Single }) {
		c.Seen, c.Unclear = sees+"; measured once, so the spread is not known", true
		return c
	}
	c.Holds = holds
	c.Unclear = !holds && !fails
	c.Few = !c.Unclear && slices.ContainsFunc(points, func(p Point) bool { return p.Few })
	return c
}

// seen is a value with its spread, as checks and tables show it.
func seen(p Point) string {
	if p.N == 0 {
		return "no value"
	}
	if p.Least == p.Y && p.Most == p.Y {
		return number(p.Y)
	}
	return fmt.Sprintf("%s (%s to %s)", number(p.Y), number(p.Least), number(p.Most))
}

func seenAll(points []Point) string {
	var list []string
	for _, p := range points {
		list = append(list, seen(p))
	}
	return strings.Join(list, ", ")
}
