package complete

import (
	_ "embed"
	"io"
)

// Shells lists the supported shells.
var Shells = []string{"bash", "zsh", "fish"}

//go:embed ecrec.bash
var bash string

//go:embed ecrec.zsh
var zsh string

//go:embed ecrec.fish
var fish string

// Script returns the completion script for a shell, empty for shells not in Shells.
func Script(shell string) string {
	return map[string]string{"bash": bash, "zsh": zsh, "fish": fish}[shell]
}

// Write writes candidates in the format of the scripts: one per line, its help after a tab.
func Write(w io.Writer, found []Candidate) error {
	var text []byte
	for _, c := range found {
		text = append(text, c.Text...)
		if c.Help != "" {
			text = append(text, '\t')
			text = append(text, c.Help...)
		}
		text = append(text, '\n')
	}
	_, err := w.Write(text)
	return err
}
