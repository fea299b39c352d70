package numbers

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// Record is the numbers of the files of one name.
type Record struct {
	Name    string
	numbers []named
}

// perPart matches the end of a unit of a figure that is counted for each step, read or batch.
var perPart = regexp.MustCompile(`/(?:step|read|batch)$`)

// Read reads the files NAME.json and NAME.txt of a folder, and NAME-*.json if NAME.json is missing. A name of which there is no file is an error.
func Read(folder fs.FS, name string) (*Record, error) {
	r := &Record{Name: name}
	paths, err := fs.Glob(folder, name+"*")
	if err != nil {
		return nil, err
	}
	whole := slices.Contains(paths, name+".json")
	for _, path := range paths {
		if rest := strings.TrimPrefix(path, name); rest[0] != '.' && (whole || rest[0] != '-') {
			continue
		}
		b, err := fs.ReadFile(folder, path)
		if err != nil {
			return nil, err
		}
		switch {
		case strings.HasSuffix(path, ".json"):
			if err := r.addReport(b); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		case strings.HasSuffix(path, ".txt"):
			r.numbers = append(r.numbers, textNumbers(string(b))...)
		}
	}
	if len(r.numbers) == 0 {
		return nil, fmt.Errorf("record %s: no file with numbers", name)
	}
	return r, nil
}

// addReport adds the figures of a report. Its build, machine, command, settings and load are no figures.
func (r *Record) addReport(b []byte) error {
	var report struct {
		Figures []struct {
			Name             string
			Unit             string
			Median, Min, Max float64
			N                float64
			Interval         []float64
		}
	}
	if err := json.Unmarshal(b, &report); err != nil {
		return err
	}
	for _, f := range report.Figures {
		var units []string
		if f.Unit != "" {
			units = []string{perPart.ReplaceAllString(f.Unit, "")}
		}
		for i, x := range append([]float64{f.Median, f.Min, f.Max}, f.Interval...) {
			r.numbers = append(r.numbers, named{x, units, f.Name + []string{"", ", least", ", greatest", ", low end", ", high end"}[i]})
		}
		r.numbers = append(r.numbers, named{f.N, []string{"number"}, f.Name + ", number"})
		r.numbers = append(r.numbers, lineNumbers(f.Name, "", f.Name)...)
	}
	return nil
}
