package numbers

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// named is a number with its place in a record.
type named struct {
	value float64
	units []string // that it may have; none: its line has no unit
	place string   // the figure, or the line of text
}

const (
	textUnits = `%|ms|us|µs|ns|s|seconds|ratio|[GMT]B/s|[GMKk]i?B|bytes|[GT]FLOP/s|samples/s`
	unsigned  = `[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,2})?`
)

var (
	// header matches the lines that describe a run, not its result: commit, command, build, machine, load and elapsed time.
	header = regexp.MustCompile(`^commits? [0-9a-f]{7}|^ecrec [0-9]|^machine: |^peers: |^files in |^ *--set |load average|` +
		`cores, (?:.*, )?go1\.|driver [0-9]|"cpu": `)
	cell = regexp.MustCompile(`[^\s|]+(?: [^\s|]+)*`)
	word = regexp.MustCompile(`(?:[^\s()\[\]{}|;",]|,[0-9]{3}\b)+`)

	// value matches a word that is a number or two: 1.5, 1.5-2.5, 1024x1024, 30ms. Hashes, dates, versions and settings do not match.
	value      = regexp.MustCompile(`^:?([+-]?(?:` + unsigned + `))(?:[-/x](` + unsigned + `))?(` + textUnits + `)?[.,:]*$`)
	unitBehind = regexp.MustCompile(`^ (` + textUnits + `|min|minutes|hours|times|M samples/s|M|` +
		`rows|samples|steps|pairs|turns|ranks|threads|cores)(?:[^\w/]|$)`)
	unitWord = regexp.MustCompile(`^(` + textUnits + `)[.,:]*$`)
	model    = regexp.MustCompile(`\bdim([0-9]+)`)
)

// textNumbers returns the numbers of the text of a record, without those of its headers.
func textNumbers(text string) (all []named) {
	head := ""
	for _, line := range strings.Split(text, "\n") {
		if header.MatchString(line) {
			continue
		}
		if strings.TrimSpace(line) == "" {
			head = ""
		}
		all = append(all, lineNumbers(line, head, strings.Join(strings.Fields(line), " "))...)
		if isHead(line) {
			head = line
		}
	}
	return all
}

// lineNumbers returns the numbers of a line below the head of a table. A number has the unit behind it. If there is none, it may have
// each unit that is by itself in its cell, or in the head above the cell, and the unit at the end of the row.
func lineNumbers(line, head, place string) (all []named) {
	for _, m := range model.FindAllStringSubmatch(line, -1) {
		all = append(all, named{parseFloat(m[1]), nil, place})
	}
	cells := cell.FindAllStringIndex(line, -1)
	row := rowUnits(line, cells)
	for _, at := range cells {
		units := append(slices.Clone(row), freeUnits(line[at[0]:at[1]])...)
		for _, above := range cell.FindAllStringIndex(head, -1) {
			if above[0] < at[1] && at[0] < above[1] {
				units = append(units, freeUnits(head[above[0]:above[1]])...)
			}
		}
		for _, w := range word.FindAllStringIndex(line[at[0]:at[1]], -1) {
			m := value.FindStringSubmatch(line[at[0]+w[0] : at[0]+w[1]])
			if m == nil {
				continue
			}
			own := units
			if m[3] != "" {
				own = m[3:]
			} else if u := unitBehind.FindStringSubmatch(line[at[0]+w[1]:]); u != nil {
				own = u[1:]
			}
			all = append(all, named{parseFloat(m[1]), own, place})
			if m[2] != "" {
				all = append(all, named{parseFloat(m[2]), own, place})
			}
		}
	}
	return all
}

// rowUnits returns the units of all numbers of a row: each cell that is a unit, and the unit of the last cell, as in
// "16459.4  17306.8samples/s".
func rowUnits(line string, cells [][]int) (units []string) {
	for i, at := range cells {
		text := line[at[0]:at[1]]
		if m := unitWord.FindStringSubmatch(text); m != nil {
			units = append(units, m[1])
		} else if m := value.FindStringSubmatch(text); m != nil && i == len(cells)-1 && m[3] != "" {
			units = append(units, m[3])
		}
	}
	return units
}

// freeUnits returns the units in a text that are not behind a number.
func freeUnits(text string) (units []string) {
	behindNumber := false
	for _, w := range word.FindAllString(text, -1) {
		if m := unitWord.FindStringSubmatch(w); m != nil && !behindNumber {
			units = append(units, m[1])
		}
		behindNumber = value.MatchString(w)
	}
	return units
}

// isHead reports whether a line is the head of a table: it has units, and no cell begins with a number.
func isHead(line string) bool {
	for _, c := range cell.FindAllString(line, -1) {
		if value.MatchString(word.FindString(c)) {
			return false
		}
	}
	return freeUnits(line) != nil
}

// parseFloat returns the value of digits that a pattern above matched.
func parseFloat(digits string) float64 {
	x, _ := strconv.ParseFloat(strings.ReplaceAll(digits, ",", ""), 64) // the only error is that of a range, with an infinite x
	return x
}
