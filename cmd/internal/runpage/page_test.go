package runpage

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/ecrec/ecrec/cmd/internal/rundir"
)

const hostile = `</td><script>alert(1)</script>`

// folder is the folder of a run with a hostile name, two evaluations and a loss.
var folder = fstest.MapFS{
	"config.toml": {Data: []byte("[job]\nname = '" + hostile + "'\n[train]\niterations = 30\n")},
	"metrics.jsonl": {Data: []byte(`{"step":10,"loss":0.6,"samples_per_s":100,"step_ms":1,"stage_ms":{"forward":0.4,"<b>":0.1}}
{"step":20,"loss":null,"samples_per_s":110,"step_ms":1,"stage_ms":{"forward":0.5}}
{"step":30,"loss":0.5,"samples_per_s":120,"step_ms":1,"stage_ms":{"forward":0.6}}
{"step":40,"lo`)},
	"events.jsonl": {Data: []byte(`{"time":"2026-03-01T12:00:00.000Z","event":"start","version":"0.5.0"}
{"time":"2026-03-01T12:00:01.000Z","event":"recovered","ranks":[1],"step":15}
{"time":"2026-03-01T12:00:02.000Z","event":"eval","step":20,"logloss":0.55,"auc":0.7}
{"time":"2026-03-01T12:00:03.000Z","event":"eval","step":30,"logloss":0.5}
{"time":"2026-03-01T12:00:04.000Z","event":"end","step":30,"digest":"0123456789abcdef"}
`)},
}

func TestPage(t *testing.T) {
	now := time.Date(2026, 3, 1, 13, 0, 0, 0, time.UTC)
	r, err := rundir.Read(folder, rundir.LockFree, now)
	if err != nil {
		t.Fatal(err)
	}
	s := rundir.ReadSeries(folder)
	if len(s.Points) != 3 || len(s.Evals) != 2 || len(s.Losses) != 1 {
		t.Fatalf("series: %+v", s)
	}
	var out bytes.Buffer
	if err := Write(&out, r, s, now); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"<h2>Loss</h2>", "<h2>AUC</h2>", "<h2>Speed</h2>", "<h2>Stages", "0123456789abcdef",
		"loss of ranks", "train.iterations", "&lt;script&gt;"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	for _, bad := range []string{"<script", "http://", "https://", "src=", "href="} {
		if strings.Contains(strings.ReplaceAll(text, "http://www.w3.org/", ""), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if n := strings.Count(text, "<svg"); n != 4 {
		t.Errorf("%d plots, want 4", n)
	}
	for rest := text; ; { // each plot is complete and escaped
		_, svg, ok := strings.Cut(rest, "<svg")
		if !ok {
			break
		}
		svg, rest, _ = strings.Cut(svg, "</svg>")
		d := xml.NewDecoder(strings.NewReader("<svg" + svg + "</svg>"))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A run that has just started has a page too.
func TestPageOfNothing(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, &rundir.Run{Name: "x"}, &rundir.Series{}, time.Now()); err != nil || strings.Contains(out.String(), "<svg") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestThin(t *testing.T) {
	for _, n := range []int{1, 999, 1000, 1001, 2500, 100000} {
		xys := make(plotter.XYs, n)
		xys[n-1].X = 7
		if kept := thin(xys); len(kept) > mostPoints || len(kept) < min(n, mostPoints/2) || kept[len(kept)-1].X != 7 {
			t.Errorf("of %d points %d are kept", n, len(kept))
		}
	}
}
