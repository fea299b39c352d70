package manpage

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

type line struct {
	Train struct {
		Config string `arg:"" help:"The run config."`
		To     string `required:"" placeholder:"A-B" help:".starts with a dot and a \\ backslash"`
		Quiet  bool   `help:"Say less."`
		Hide   bool   `hidden:"" help:"never shown"`
	} `cmd:"" help:"Trains."`
	Data struct {
		Synth struct{} `cmd:"" help:"Makes data."`
	} `cmd:"" help:"a group"`
	Secret struct{} `cmd:"" hidden:"" help:"never shown"`
}

func TestPage(t *testing.T) {
	app := kong.Must(&line{}, kong.Name("tool"), kong.Description("Does one thing: well.")).Model
	var out strings.Builder
	about := About{Version: "1.2.3", Date: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC),
		Notes: []Section{{"Exit status", []Item{{"0", "Done."}}}}}
	if err := Write(&out, app, about); err != nil {
		t.Fatal(err)
	}
	const want = `.TH TOOL 1 "2026-11-23" "tool 1.2.3" "User Commands"
.SH NAME
tool \- does one thing
.SH SYNOPSIS
.B tool train
[options] <config> \-\-to=A\-B
.br
.B tool data synth
[options]
.SH DESCRIPTION
Does one thing: well.
.SH COMMANDS
.SS train <config>
Trains.
.TP
\fB<config>\fR
The run config.
.TP
\fB\-\-to\fR=\fIA\-B\fR
\&.starts with a dot and a \e backslash
.TP
\fB\-\-quiet\fR
Say less.
.SS data synth
Makes data.
.SH EXIT STATUS
.TP
\fB0\fR
Done.
`
	if got := out.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	file := filepath.Join(t.TempDir(), "tool.1")
	if err := os.WriteFile(file, []byte(out.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command("mandoc", "-T", "lint", "-W", "warning", file).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("skipped: no mandoc to check the page with")
	}
	if err != nil {
		t.Errorf("mandoc: %v: %s", err, said)
	}
}
