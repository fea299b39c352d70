package manpage

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// About is the content of a page that is not in the model.
type About struct {
	Version string
	Date    time.Time // zero: unknown
	Notes   []Section
}

// Section is a part of the page after the commands.
type Section struct {
	Title string
	Items []Item
}

// Item is a term and its explanation.
type Item struct{ Term, Text string }

// Write writes the page.
func Write(w io.Writer, app *kong.Application, about About) error {
	p := &page{}
	date := ""
	if !about.Date.IsZero() {
		date = about.Date.UTC().Format(time.DateOnly)
	}
	p.writeLine(".TH %s 1 %q %q \"User Commands\"", strings.ToUpper(app.Name), date, app.Name+" "+about.Version)
	p.writeLine(".SH NAME")
	p.writeLine("%s \\- %s", escape(app.Name), escape(firstSentence(app.Help)))
	p.writeLine(".SH SYNOPSIS")
	for i, c := range commands(app.Node) {
		if i > 0 {
			p.writeLine(".br")
		}
		p.writeSynopsis(app.Name, c)
	}
	p.writeLine(".SH DESCRIPTION")
	p.writeText(app.Help)
	p.writeLine(".SH COMMANDS")
	for _, c := range commands(app.Node) {
		p.writeCommand(c)
	}
	for _, s := range about.Notes {
		p.writeLine(".SH %s", strings.ToUpper(escape(s.Title)))
		for _, i := range s.Items {
			p.writeItem(i.Term, "", i.Text)
		}
	}
	_, err := w.Write(p.Bytes())
	return err
}

// commands returns the commands of the page. A group is replaced by its commands.
func commands(n *kong.Node) (all []*kong.Node) {
	for _, c := range n.Children {
		switch {
		case c.Hidden:
		case len(c.Children) > 0:
			all = append(all, commands(c)...)
		default:
			all = append(all, c)
		}
	}
	return all
}

type page struct{ bytes.Buffer }

func (p *page) writeLine(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// writeText writes a paragraph. It escapes a dot or quote at the beginning of a line, which would
// be a macro.
func (p *page) writeText(s string) {
	for line := range strings.Lines(s) {
		line = escape(strings.TrimSpace(line))
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		p.writeLine("%s", line)
	}
}

func (p *page) writeSynopsis(app string, c *kong.Node) {
	p.writeLine(".B %s %s", escape(app), escape(path(c)))
	words := arguments(c)
	for _, f := range flags(c) {
		if f.Required {
			words = append(words, f.Summary())
		}
	}
	p.writeText("[options] " + strings.Join(words, " "))
}

func (p *page) writeCommand(c *kong.Node) {
	p.writeLine(".SS %s", escape(strings.TrimSpace(path(c)+" "+strings.Join(arguments(c), " "))))
	p.writeText(c.Help)
	for _, arg := range c.Positional {
		p.writeItem(arg.Summary(), "", arg.Help)
	}
	for _, f := range flags(c) {
		value := ""
		if !f.IsBool() {
			value = f.FormatPlaceHolder()
		}
		p.writeItem("--"+f.Name, value, f.Help)
	}
}

// writeItem writes a term in bold, its value in italics, and the explanation below.
func (p *page) writeItem(term, value, text string) {
	p.writeLine(".TP")
	if value == "" {
		p.writeLine(`\fB%s\fR`, escape(term))
	} else {
		p.writeLine(`\fB%s\fR=\fI%s\fR`, escape(term), escape(value))
	}
	p.writeText(text)
}

// path returns a command's name after those of its groups. The default command of a group has no name of its own.
func path(c *kong.Node) string {
	if c.Parent != nil && c.Parent.DefaultCmd == c {
		return path(c.Parent)
	}
	if c.Parent == nil || c.Parent.Type == kong.ApplicationNode {
		return c.Name
	}
	return path(c.Parent) + " " + c.Name
}

func arguments(c *kong.Node) (all []string) {
	for _, arg := range c.Positional {
		all = append(all, arg.Summary())
	}
	return all
}

// flags returns the flags of a command and of its groups, without --help.
func flags(c *kong.Node) (all []*kong.Flag) {
	for _, group := range c.AllFlags(true) {
		for _, f := range group {
			if f.Name != "help" {
				all = append(all, f)
			}
		}
	}
	return all
}

var escaper = strings.NewReplacer(`\`, `\e`, "-", `\-`)

// escape escapes text for roff. A hyphen stays an ASCII hyphen, which can be copied.
func escape(s string) string { return escaper.Replace(s) }

func firstSentence(s string) string {
	first, _, _ := strings.Cut(s, ".")
	first, _, _ = strings.Cut(first, ":")
	return strings.ToLower(first[:1]) + first[1:]
}
