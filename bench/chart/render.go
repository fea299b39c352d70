package chart

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	pageWidth, pageHeight = vg.Length(640), vg.Length(300)
	fileWidth, fileHeight = vg.Length(760), vg.Length(400)
)

// SVG returns a chart for a page. It has no width of its own: the page sets it.
func (c *Chart) SVG(title string) (string, error) {
	g, err := c.build(onPage, pageWidth)
	if err != nil {
		return "", err
	}
	height := pageHeight
	if c.Bars {
		lines := 1
		for _, t := range labelTicks(c.labels(), pageWidth) {
			lines = max(lines, 1+strings.Count(t.Label, "\n"))
		}
		height += vg.Length(lines-1) * fontSize
	}
	canvas := vgsvg.New(pageWidth, height)
	g.Draw(draw.Crop(draw.New(canvas), 2, -8, 2, -6))
	return inline(canvas, title)
}

// Swatch returns the sign of a series in a legend of a page.
func (c *Chart) Swatch(s Series) (string, error) {
	const width, height = 26, 12
	canvas := vgsvg.New(width, height)
	d := draw.New(canvas)
	drawSwatch(&d, onPage, c.Bars, s, vg.Rectangle{Max: vg.Point{X: width, Y: height}})
	return inline(canvas, "")
}

// drawSwatch draws the sign of a series in a rectangle.
func drawSwatch(d *draw.Canvas, p palette, bars bool, s Series, r vg.Rectangle) {
	middle := vg.Point{X: (r.Min.X + r.Max.X) / 2, Y: (r.Min.Y + r.Max.Y) / 2}
	switch {
	case s.Hollow:
		p.drawMarker(d, s.Number, true, middle)
	case bars:
		p.drawBar(d, s.Number, vg.Rectangle{Min: vg.Point{X: r.Min.X + 4, Y: r.Min.Y + 1}, Max: vg.Point{X: r.Max.X - 4, Y: r.Max.Y - 1}})
	default:
		d.StrokeLine2(p.lineStyle(s), r.Min.X, middle.Y, r.Max.X, middle.Y)
		if !s.Plain {
			p.drawMarker(d, s.Number, false, middle)
		}
	}
}

var (
	seriesColor = regexp.MustCompile(`#01000([0-7])`)
	// fontOf is the style that vgsvg gives each text. The page has the font.
	fontOf = regexp.MustCompile(`font-family:[^;]*;font-variant:[^;]*;font-weight:[^;]*;font-style:[^;]*;`)
	size   = regexp.MustCompile(`<svg width="[^"]*" height="[^"]*" viewBox="([^"]*)"\s+xmlns="[^"]*"\s+xmlns:xlink="[^"]*">`)
)

// inline returns the SVG of a canvas as an element of a page.
func inline(canvas *vgsvg.Canvas, title string) (string, error) {
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", err
	}
	_, svg, _ := strings.Cut(b.String(), "<svg") // without the XML header
	svg = seriesColor.ReplaceAllString("<svg"+svg, "var(--c$1)")
	svg = strings.NewReplacer("#020000", "var(--ink)", "#020001", "var(--muted)", "#020002", "var(--grid)", "#020003", "var(--paper)").Replace(svg)
	svg = fontOf.ReplaceAllString(svg, "")
	label := `aria-hidden="true"`
	if title != "" {
		label = `role="img" aria-label="` + escape(title) + `"`
	}
	return size.ReplaceAllString(svg, `<svg viewBox="$1" `+label+`>`), nil
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}

// WriteFile writes a chart as a picture, in the format that the ending of the name has: png or svg. The legend and the lines of the
// caption are below the frame.
func (c *Chart) WriteFile(out io.Writer, name, title string, caption []string) error {
	p := inFile
	g, err := c.build(p, fileWidth)
	if err != nil {
		return err
	}
	var canvas vg.CanvasWriterTo
	height := fileHeight + vg.Length(len(caption)+2)*fontSize*1.3
	switch ending := strings.ToLower(filepath.Ext(name)); ending {
	case ".svg":
		canvas = vgsvg.New(fileWidth, height)
	case ".png":
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(fileWidth, height), vgimg.UseDPI(144))}
	default:
		return fmt.Errorf("chart: a picture ends in .png or .svg, not in %s", strconv.Quote(ending))
	}
	d := draw.NewCanvas(canvas, fileWidth, height)
	d.SetColor(p.paper)
	d.Fill(d.Rectangle.Path())
	d = draw.Crop(d, 12, -16, 12, -10)
	line := textStyle(p, fontSize)
	y := d.Max.Y
	heading := textStyle(p, fontSize+3)
	d.FillText(heading, vg.Point{X: d.Min.X, Y: y}, title)
	bottom := d.Min.Y
	small := textStyle(p, fontSize-2)
	small.Color = p.muted
	for i := len(caption) - 1; i >= 0; i-- {
		bottom += (fontSize - 2) * 1.35
		d.FillText(small, vg.Point{X: d.Min.X, Y: bottom}, caption[i])
	}
	bottom += fontSize * 1.9
	c.drawLegend(&d, p, line, bottom)
	g.Draw(draw.Crop(d, 0, 0, bottom-d.Min.Y+8, -fontSize*2.2))
	_, err = canvas.WriteTo(out)
	return err
}

// drawLegend draws the names of the series and of the marks in a line.
func (c *Chart) drawLegend(d *draw.Canvas, p palette, style text.Style, y vg.Length) {
	x := d.Min.X
	add := func(s Series) {
		drawSwatch(d, p, c.Bars, s, vg.Rectangle{Min: vg.Point{X: x, Y: y - 13}, Max: vg.Point{X: x + 24, Y: y - 2}})
		d.FillText(style, vg.Point{X: x + 30, Y: y}, s.Name)
		x += 30 + style.Width(s.Name) + 22
	}
	for _, s := range c.Series {
		add(s)
	}
	seen := map[string]bool{}
	for _, m := range c.Marks {
		if !seen[m.Name] {
			add(Series{Name: m.Name, Number: m.Number, Plain: true})
		}
		seen[m.Name] = true
	}
}

func textStyle(p palette, size vg.Length) text.Style {
	return text.Style{Color: p.ink, Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size), XAlign: draw.XLeft, YAlign: draw.YTop,
		Handler: text.Plain{Fonts: font.DefaultCache}}
}
