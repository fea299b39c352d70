package runpage

import (
	"bytes"
	"html/template"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/ecrec/ecrec/cmd/internal/rundir"
)

// page is the input of the template.
type page struct {
	Title, Status string
	Plots         []figure
	Config        []setting
}

type figure struct {
	Title string
	SVG   template.HTML
}

type setting struct{ Key, Value string }

// Mark is near the beginning of every page.
const Mark = `<meta name="generator" content="ecrec report">`

var layout = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
` + Mark + `
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{.Title}}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }
pre, td { font-family: ui-monospace, monospace; font-size: 13px }
pre { background: #f5f5f5; padding: 1rem; overflow-x: auto }
svg { width: 100%; height: auto }
td { padding: 0 1rem 0 0; vertical-align: top; overflow-wrap: anywhere }
</style>
</head>
<body>
<h1>{{.Title}}</h1>
<pre>{{.Status}}</pre>
{{range .Plots}}<h2>{{.Title}}</h2>
{{.SVG}}
{{end}}{{if .Config}}<h2>Config</h2>
<table>
{{range .Config}}<tr><td>{{.Key}}</td><td>{{.Value}}</td></tr>
{{end}}</table>
{{end}}</body>
</html>
`))

// Write writes the page of a run and its history.
func Write(w io.Writer, r *rundir.Run, s *rundir.Series, now time.Time) error {
	var status bytes.Buffer
	r.WriteStatus(&status, now)
	p := page{Title: "ecrec run " + r.Name, Status: status.String()}
	for _, f := range []struct {
		title, label string
		curves       []curve
	}{
		{"Loss", "logloss", []curve{{"training", trainLoss(s), false},
			{"evaluation", evals(s, func(e rundir.Eval) *float64 { return e.LogLoss }), true}}},
		{"AUC", "AUC", []curve{{"evaluation", evals(s, func(e rundir.Eval) *float64 { return e.AUC }), true}}},
		{"Speed", "samples/s", []curve{{"samples/s", rate(s), false}}},
		{"Stages of a step, on rank 0", "ms", stages(s)},
	} {
		svg, err := draw(f.label, s.Losses, f.curves...)
		if err != nil {
			return err
		}
		if svg != "" {
			p.Plots = append(p.Plots, figure{f.title, svg})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(r.Config)) {
		p.Config = append(p.Config, setting{k, r.Config[k]})
	}
	return layout.Execute(w, p)
}
