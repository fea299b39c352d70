package paper

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/bench"
	"github.com/ecrec/ecrec/internal/buildinfo"
)

var pageTo = flag.String("page", "", "also write the page of the tests to this file, to look at it")

// sample are drawings of every kind: bars, lines, a long timeline, checks that fail and that are unclear, errors, reasons.
func sample() []Drawing {
	runs := func(names ...string) func(Size) []Run {
		return func(Size) (all []Run) {
			for _, n := range names {
				all = append(all, Run{Bench: n, Args: []string{"ranks=5", "model=dim16"}, Repeats: 3})
			}
			return all
		}
	}
	fill := func(f *Figure, kind bench.Evidence, names []string, points ...[]Point) {
		for i, n := range names {
			f.Series = append(f.Series, Series{System: n, Kind: kind, Points: points[i]})
		}
	}
	return []Drawing{
		{ID: "E5", Runs: runs("first"), Draw: func(f *Figure, r []*bench.Report) error {
			bar := func(label string, y float64) Point {
				return Point{X: float64(len(label)), Label: label, Y: y, Least: 0.8 * y, Most: 1.3 * y, N: 5}
			}
			fill(f, bench.Simulated, []string{"ECRec k=4", "Ckpt-30", "Ckpt-60", "ecrec k=4"}, []Point{bar("Original", 17), bar("2S", 18), bar("4S", 21), bar("8S", 23)},
				[]Point{bar("Original", 10), bar("2S", 18), bar("4S", 33), bar("8S", 60)}, []Point{bar("Original", 5), bar("2S", 9), bar("4S", 18), bar("8S", 29)},
				[]Point{bar("Original", 1.1), bar("2S", 1.2), bar("4S", 1.2), bar("8S", 1.4)})
			f.Checks = []Check{above("8S: Ckpt-30 costs more than ECRec", f.atLabel("Ckpt-30", "8S"), f.atLabel("ECRec k=4", "8S")),
				above("8S: Ckpt-60 costs more than ECRec", f.atLabel("Ckpt-60", "8S"), f.atLabel("ECRec k=4", "8S"))}
			f.Params = []Param{{"scale s", "1", "200: sizes, intervals and lengths of runs are divided by it"}, {"servers", "5, 25 Gb/s", "5 processes, links of 25 Gb/s, 50 us"}}
			f.Notes = append(f.Notes, "The store writes 1.5 GB/s, as the paper's did: neither weaker nor stronger.")
			return nil
		}},
		{ID: "E10", Runs: runs("first", "second"), Draw: func(f *Figure, r []*bench.Report) error {
			var points []Point
			for i := range 400 {
				p := exact(float64(i)/4, 25000+3000*float64(i%7))
				if i > 150 && i < 170 {
					p = exact(p.X, 0)
				}
				points = append(points, p)
			}
			fill(f, bench.Measured, []string{"ECRec", "Ckpt-30"}, points, points[:200])
			f.Checks = []Check{holdsIf("training again within 30 s", true, "%d s", 1), below("ECRec stands still for less time", exact(0, 5), exact(0, 3))}
			return nil
		}},
		{ID: "B3", Runs: runs("first"), Draw: func(f *Figure, r []*bench.Report) error {
			fill(f, bench.Counted, []string{"bursts", "independent draws"}, []Point{exact(0.01, 60), exact(0.1, 90.5), exact(1, 95), exact(10, 99)},
				[]Point{exact(0.01, 50), exact(0.1, 89), exact(1, 93), exact(10, 98)})
			return nil
		}},
		{ID: "B-tab3", Runs: runs("second"), Draw: func(f *Figure, r []*bench.Report) error {
			with := func(x, y float64, unit string) Point { p := exact(x, y); p.Unit = unit; return p }
			labelled := exact(5, 31)
			labelled.Label = "ours"
			fill(f, bench.Virtual, []string{"cache", "iteration"}, []Point{labelled, exact(50, 200), exact(300, 900)},
				[]Point{with(5, 120, "ms"), with(50, 80, "ms"), with(300, 66, "ms")})
			f.Checks = []Check{rising("the cache grows with the lookahead", f.points("cache"))}
			return nil
		}},
		{ID: "B7", Runs: runs("broken"), Draw: func(*Figure, []*bench.Report) error { return nil }},
		{ID: "B8", Runs: runs("first"), Draw: func(*Figure, []*bench.Report) error { return errors.New("no figure <rows>") }},
		{ID: "B9", Runs: runs("first"), Draw: func(*Figure, []*bench.Report) error { panic("index out of range") }},
		{ID: "B10", Runs: runs("first"), Draw: func(f *Figure, _ []*bench.Report) error {
			fill(f, bench.Measured, []string{"x"}, []Point{exact(1, math.NaN())})
			return nil
		}},
		{ID: "O14", Why: "this machine has no persistent memory", Impossible: true},
		{ID: "own-goodput", Runs: runs("first"), Draw: func(f *Figure, r []*bench.Report) error {
			f.Title, f.X, f.Y = "Goodput over the time between failures", Axis{Name: "MTBF", Unit: "s", Log: true}, Axis{Name: "time over that without failures", Unit: "ratio"}
			fill(f, bench.Measured, []string{"ecrec"}, []Point{spread(60, 1.03, 1.01, 1.06), spread(600, 1.01, 1, 1.02), exact(6000, 1)})
			f.Checks = []Check{atMost("at most 1.05 at MTBF 60 s", f.at("ecrec", 60), 1.05)}
			return nil
		}},
	}
}

// sampleReport is a report of the sample.
func sampleReport(drawings []Drawing) *Report {
	build := buildinfo.Info{Version: "0.5.0", Commit: "0123456789abcdef0123"}
	s := Session{Size: "quick", When: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Command: []string{"ecrec", "bench", "report"}, Seconds: 571, Build: build}
	for _, x := range planDrawings(inOrder(drawings), Quick, nil) {
		x.Done = x.Run.Bench != "broken"
		if !x.Done {
			x.Error = "bench broken: <exit status 2>\npanic: a long text"
		}
		s.Runs = append(s.Runs, x)
	}
	share := 0.25
	return makeFrom(inOrder(drawings), s, func(r Run) (*bench.Report, error) {
		return &bench.Report{Bench: r.Bench, Build: build, When: s.When.Add(time.Minute), Load: &bench.Load{Seconds: 10, Others: &share, Steal: &share},
			Machine: bench.Machine{CPU: "A CPU", Cores: 2, Memory: 8 << 30, Go: "go1.25", OS: "linux/amd64", Kernel: "Linux 6.1"}}, nil
	})
}

// pageOf returns the page of a report and its parts: texts by the class of their elements, the values of data elements, ids and links.
func pageOf(t *testing.T, r *Report) (page string, texts map[string][]string, values []string, ids, links []string) {
	t.Helper()
	var b bytes.Buffer
	if err := r.WritePage(&b); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	d.Entity = xml.HTMLEntity
	texts = map[string][]string{}
	var open []string // classes
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			class := ""
			for _, a := range x.Attr {
				switch {
				case a.Name.Local == "class":
					class = a.Value
				case a.Name.Local == "id":
					ids = append(ids, a.Value)
				case a.Name.Local == "href":
					links = append(links, a.Value)
				case x.Name.Local == "data":
					values = append(values, a.Value)
				}
			}
			open = append(open, class)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				texts[open[len(open)-1]] = append(texts[open[len(open)-1]], string(x))
			}
		}
	}
	return b.String(), texts, values, ids, links
}

func TestPageHasEveryFigure(t *testing.T) {
	r := sampleReport(sample())
	page, texts, _, ids, links := pageOf(t, r)
	if *pageTo != "" {
		if err := os.WriteFile(*pageTo, []byte(page), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range append(IDs(), "own-goodput", "all", "how") {
		n := 0
		for _, x := range ids {
			if x == id {
				n++
			}
		}
		if n != 1 {
			t.Errorf("the page has %d elements %s", n, id)
		}
	}
	for _, link := range links {
		if !strings.HasPrefix(link, "#") || !slices.Contains(ids, link[1:]) {
			t.Errorf("the link %s leads nowhere on the page", link)
		}
	}
	for _, bad := range []string{"<script", "http://", "https://", "src=", "url(", "@import"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for id, want := range map[string]Mark{"E5": ShapeUnclear, "E10": ShapeDiffers, "B3": NoChecks, "B-tab3": ShapeHolds, "B7": Failed, "B8": Failed,
		"B9": Failed, "B10": Failed, "O14": Impossible, "T6.1": NotRun, "own-goodput": ShapeUnclear} {
		i := slices.IndexFunc(r.Figures, func(f *Figure) bool { return f.ID == id })
		if i < 0 || r.Figures[i].Mark != want {
			t.Errorf("%s is %s, want %s", id, r.Figures[i].Mark, want)
		}
	}
	if got := r.Failed(); !slices.Equal(got, []string{"B7", "B8", "B9", "B10"}) {
		t.Errorf("failed: %v", got)
	}
	for class, want := range map[string]string{"error": "exit status 2", "apart": "not told apart", "kind virtual": "virtual", "seen": "1 s"} {
		if !strings.Contains(strings.Join(texts[class], "\n"), want) {
			t.Errorf("no element of class %s has %q: %q", class, want, texts[class])
		}
	}
	for _, want := range []string{"0123456789ab", "25 % of the cores", "Other work used 25.0 % of the cores during bench first ranks=5",
		"other work at most 25.0 % of the cores in a run", "other work disturbed a run", "ecrec bench first ranks=5 model=dim16 --repeats 3", "2026-03-01 12:01 UTC", "400 values, in E10.csv",
		"this machine has no persistent memory", "9m31s",
		`<td>cache</td><td>5 (ours)</td><td class="num"><data value="39.6">`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if n := strings.Count(page, `role="img"`); n != 6 {
		t.Errorf("%d charts, want 6", n)
	}
}

// Every number in a table is one of the JSON report, and its text is that number rounded.
func TestNumbersOfPageAreThoseOfJSON(t *testing.T) {
	r := sampleReport(sample())
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal(b.Bytes(), &again); err != nil {
		t.Fatal(err)
	}
	var want []string
	exactly := func(y float64) string { return strconv.FormatFloat(y, 'g', -1, 64) }
	for _, f := range again.Figures {
		for _, v := range f.Values {
			want = append(want, exactly(v.Y))
		}
		for _, s := range f.Series {
			for _, p := range s.Points {
				if len(s.Points) > mostMarkers || f.Error != "" {
					continue
				}
				want = append(want, exactly(p.Y))
				if p.Least != p.Y || p.Most != p.Y {
					want = append(want, exactly(p.Least), exactly(p.Most))
				}
			}
		}
	}
	page, _, got, _, _ := pageOf(t, r)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d numbers on the page, %d in the JSON", len(got), len(want))
	}
	plain := html.UnescapeString(page)
	for _, v := range got {
		y, _ := strconv.ParseFloat(v, 64)
		begin := `<data value="` + v + `">`
		if !strings.Contains(plain, begin+number(y)+`</data>`) && !strings.Contains(plain, begin+full(y)+`</data>`) {
			t.Errorf("%s is not printed as %s", v, number(y))
		}
	}
	page2, _, _, _, _ := pageOf(t, &again)
	if page2 != page {
		t.Error("the page of the JSON report differs")
	}
}

// A check that is made false is red on the page, and its figure is marked as different.
func TestFailingCheckIsRed(t *testing.T) {
	drawings := sample()
	i := slices.IndexFunc(drawings, func(d Drawing) bool { return d.ID == "B-tab3" })
	draw := drawings[i].Draw
	for _, c := range []struct {
		by   float64
		mark Mark
		fail int
	}{{1, ShapeHolds, 0}, {-1, ShapeDiffers, 1}} {
		drawings[i].Draw = func(f *Figure, r []*bench.Report) error {
			err := draw(f, r)
			f.Series[0] = scaledSeries(f.Series[0], c.by)
			f.Checks = []Check{rising("the cache grows", f.points("cache"))}
			return err
		}
		r := sampleReport(drawings[i : i+1])
		page, texts, _, _, _ := pageOf(t, r)
		if n := strings.Count(page, `<li class="fail">`); n != c.fail {
			t.Errorf("%v: %d red checks, want %d", c.by, n, c.fail)
		}
		if !slices.Contains(texts["mark differs"], "fails") == (c.fail > 0) {
			t.Errorf("%v: marks %q", c.by, texts["mark differs"])
		}
		if !strings.Contains(page, `<td><span class="mark `+classOf(c.mark)+`">`+string(c.mark)+`</span></td>`) {
			t.Errorf("%v: the table of all figures has no %s", c.by, c.mark)
		}
	}
}

func TestCSV(t *testing.T) {
	r := sampleReport(sample())
	i := slices.IndexFunc(r.Figures, func(f *Figure) bool { return f.ID == "B-tab3" })
	var b bytes.Buffer
	if err := r.Figures[i].WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"B-tab3,ecrec,cache,virtual,5,ours,31,31,31,1,MB,,\n", "B-tab3,ecrec,iteration,virtual,300,,66,66,66,1,ms,,\n",
		"B-tab3,BagPipe,iteration,,200,,65.1,,,,ms,tab. 3,\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no line %q in\n%s", want, b.String())
		}
	}
}

func TestPlan(t *testing.T) {
	runs := planDrawings(sample(), Quick, []string{"E5", "E10"})
	if len(runs) != 2 || !slices.Equal(runs[0].Figures, []string{"E5", "E10"}) || !slices.Equal(runs[1].Figures, []string{"E10"}) {
		t.Errorf("%+v", runs)
	}
	if a, b := runs[0].File, runs[1].File; a == b || filepath.Ext(a) != ".json" || !strings.HasPrefix(a, "first-") {
		t.Errorf("files %s and %s", a, b)
	}
	if _, err := Plan(Quick, []string{"E5", "E99", "x"}, ""); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "E99, x;") {
		t.Errorf("unknown ids: %v", err)
	}
	if parseSize("full") != Full || parseSize(Quick.String()) != Quick || parseSize("") != Tiny {
		t.Error("sizes are not those of their names")
	}
	s := Session{Size: "quick", Only: []string{"E5"}, Stopped: "0 of 2 runs", Runs: runs}
	r := makeFrom(sample(), s, nil)
	for id, want := range map[string]string{"E5": "stopped by a signal after 0 of 2 runs", "E10": "not asked for: --only E5"} {
		i := slices.IndexFunc(r.Figures, func(f *Figure) bool { return f.ID == id })
		if f := r.Figures[i]; f.Mark != NotRun || f.Why != want {
			t.Errorf("%s: %s, %s", id, f.Mark, f.Why)
		}
	}
}
