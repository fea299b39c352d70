package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// charts has one of each kind.
func charts() map[string]*Chart {
	line := func(name string, n int, ys ...float64) Series {
		s := Series{Name: name, Number: n}
		for i, y := range ys {
			s.Points = append(s.Points, Point{X: float64(i + 1), Label: fmt.Sprintf("group <%d> & more", i), Y: y, Least: y * 0.9, Most: y * 1.2})
		}
		return s
	}
	hollow := line("paper", 3, 2, 4)
	hollow.Hollow = true
	steps := line("windows", 9, 1, 0, 3)
	steps.Steps, steps.Plain = true, true
	return map[string]*Chart{
		"lines": {X: Axis{"batch", true}, Y: Axis{"time <ms>", true}, Series: []Series{line("a", 0, 1, 20, 3000), line("b", 8, 2, 3, 5), hollow}},
		"bars":  {Bars: true, X: Axis{"model", false}, Y: Axis{"ms", false}, Series: []Series{line("a", 0, 1, 2), line("b", 1, -2, 3), hollow}},
		"time":  {X: Axis{"s", false}, Y: Axis{"samples/s", false}, Series: []Series{steps}, Marks: []Mark{{"loss", 1, 2}, {"loss", 1, 3}}},
		"one":   {X: Axis{"x", true}, Y: Axis{"y", false}, Series: []Series{{Name: "a", Points: []Point{{X: 3}}}}},
	}
}

func TestSVGIsWellFormed(t *testing.T) {
	for name, c := range charts() {
		svg, err := c.SVG(`a "title" <of> &`)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, _ := c.SVG(`a "title" <of> &`)
		if svg != again {
			t.Errorf("%s: two drawings differ", name)
		}
		checkXML(t, name, svg)
		if strings.Contains(svg, "width=\"640") || strings.Contains(svg, "font-family") || !strings.Contains(svg, "var(--ink)") {
			t.Errorf("%s: has a size, a font or no variables: %.300s", name, svg)
		}
		if left := regexp.MustCompile(`#[0-9A-Fa-f]{6}`).FindString(svg); left != "" {
			t.Errorf("%s: the colour %s is no variable", name, left)
		}
		for _, s := range c.Series {
			swatch, err := c.Swatch(s)
			if err != nil || !strings.Contains(swatch, fmt.Sprintf("var(--c%d)", s.Number%Colors)) {
				t.Errorf("%s: the swatch of %s: %v %s", name, s.Name, err, swatch)
			}
			checkXML(t, name, swatch)
		}
	}
}

func checkXML(t *testing.T, name, svg string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func TestFiles(t *testing.T) {
	for name, c := range charts() {
		for ending, begins := range map[string]string{".svg": "<?xml", ".png": "\x89PNG"} {
			var b bytes.Buffer
			if err := c.WriteFile(&b, "x"+ending, "title", []string{"machine", "command"}); err != nil || !strings.HasPrefix(b.String(), begins) {
				t.Errorf("%s%s: %v, %.20q", name, ending, err, b.String())
			}
			if dir := os.Getenv("ECREC_CHARTS"); dir != "" {
				_ = os.WriteFile(filepath.Join(dir, name+ending), b.Bytes(), 0o666)
			}
		}
		if err := c.WriteFile(io.Discard, "x.gif", "", nil); err == nil {
			t.Error("wrote a gif")
		}
	}
}

func TestNothingIsAnError(t *testing.T) {
	for _, c := range []*Chart{{}, {Series: []Series{{Points: []Point{{Y: math.NaN()}}}}}} {
		if _, err := c.SVG(""); !errors.Is(err, errNothing) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		isLog     bool
		want      string
	}{
		{0, 1, false, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{-7, 23, false, "\u22125 0 5 10 15 20"},
		{0, 52000, false, "0 10,000 20,000 30,000 40,000 50,000"},
		{0, 4.1e6, false, "0 1M 2M 3M 4M"},
		{0.9, 110, true, "1 2 5 10 20 50 100"},
		{0.01, 1e3, true, "0.01 0.1 1 10 100 1,000"},
	} {
		var got []string
		for _, tick := range (ticker{c.isLog}).Ticks(c.low, c.high) {
			if tick.Label != "" {
				got = append(got, tick.Label)
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%v to %v: %q, want %q", c.low, c.high, text, c.want)
		}
	}
	if got := wrapText("also without two-phase commit", 12); got != "also without\ntwo-phase\ncommit" {
		t.Errorf("%q", got)
	}
}

// Two series look different if one of colour, marker, dashes or pattern differs.
func TestSeriesLookDifferent(t *testing.T) {
	seen := map[string]int{}
	for n := range Colors * len(shapes) {
		looks := fmt.Sprint(n%Colors, n%len(shapes))
		if before, ok := seen[looks]; ok {
			t.Errorf("series %d and %d look the same", before, n)
		}
		seen[looks] = n
	}
	if Colors%len(dashes) == 0 || Colors%patterns == 0 || patterns <= falling {
		t.Error("lines or bars of one colour look the same")
	}
}
