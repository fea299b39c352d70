package complete

import (
	"slices"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"
)

// Candidate is a completion of a word. After one that ends in / or = the user continues the word.
type Candidate struct{ Text, Help string }

// Source lists the completions of a word that begins with prefix. args are the arguments given
// to the command before it, without flags.
type Source func(args []string, prefix string) []Candidate

// Candidates lists the completions of the last word. sources are those that tags complete:"NAME"
// name.
func Candidates(root *kong.Node, words []string, sources map[string]Source) []Candidate {
	if len(words) == 0 {
		words = []string{""}
	}
	before, word := words[:len(words)-1], words[len(words)-1]
	at := cursor{node: root}
	for _, w := range before {
		at.advance(w)
	}
	switch {
	case at.value != nil:
		return at.completeValue(at.value.Value, at.value.PlaceHolder, word, sources)
	case at.onlyArgs:
		return at.completeArgument(word, sources)
	case strings.HasPrefix(word, "-"):
		name, prefix, isValue := strings.Cut(word, "=")
		if !isValue {
			return at.completeFlag(word)
		}
		flag := at.findFlag(name)
		if flag == nil {
			return nil
		}
		found := at.completeValue(flag.Value, flag.PlaceHolder, prefix, sources)
		for i := range found {
			found[i].Text = name + "=" + found[i].Text
		}
		return found
	}
	return append(at.completeCommand(word), at.completeArgument(word, sources)...)
}

// cursor is the state of a command line after some of its words.
type cursor struct {
	node     *kong.Node
	args     []string   // arguments that were given to node
	value    *kong.Flag // the flag whose value comes next
	onlyArgs bool       // after --
}

func (c *cursor) advance(word string) {
	switch {
	case c.value != nil:
		c.value = nil
	case c.onlyArgs:
		c.args = append(c.args, word)
	case word == "--":
		c.onlyArgs = true
	case strings.HasPrefix(word, "-"):
		if flag := c.findFlag(word); flag != nil && !flag.IsBool() {
			c.value = flag
		}
	default:
		for _, child := range c.node.Children {
			if child.Name == word {
				c.node, c.args = child, nil
				return
			}
		}
		c.node = c.withDefault()
		c.args = append(c.args, word)
	}
}

// withDefault returns the default command of a group, which takes arguments and flags without its name, else the command itself.
func (c *cursor) withDefault() *kong.Node {
	if c.node.DefaultCmd != nil {
		return c.node.DefaultCmd
	}
	return c.node
}

// findFlag returns the flag --name of the command or of its groups, nil if there is none.
func (c *cursor) findFlag(name string) *kong.Flag {
	for _, group := range c.withDefault().AllFlags(false) {
		for _, f := range group {
			if "--"+f.Name == name {
				return f
			}
		}
	}
	return nil
}

func (c *cursor) completeFlag(prefix string) (found []Candidate) {
	for _, group := range c.withDefault().AllFlags(true) {
		for _, f := range group {
			found = add(found, prefix, "--"+f.Name, f.Help)
		}
	}
	return found
}

func (c *cursor) completeCommand(prefix string) (found []Candidate) {
	for _, child := range c.node.Children {
		if !child.Hidden && child != c.node.DefaultCmd {
			found = add(found, prefix, child.Name, child.Help)
		}
	}
	return found
}

func (c *cursor) completeArgument(prefix string, sources map[string]Source) []Candidate {
	positional := c.withDefault().Positional
	n := len(positional)
	if n == 0 || len(c.args) >= n && !positional[n-1].IsCumulative() {
		return nil
	}
	arg := positional[min(len(c.args), n-1)]
	return c.completeValue(arg, arg.Tag.PlaceHolder, prefix, sources)
}

// completeValue lists the values of a flag or argument that begin with prefix.
func (c *cursor) completeValue(v *kong.Value, placeholder, prefix string, sources map[string]Source) (found []Candidate) {
	parts := strings.Split(placeholder, "|")
	if name := v.Tag.Get("complete"); name != "" {
		found = sources[name](c.args, prefix)
	} else if slices.Contains(parts, "DIR") && !slices.Contains(parts, "FILE") {
		found = Folders(c.args, prefix)
	}
	words := append(parts, v.EnumSlice()...)
	for _, w := range words {
		if w != "" && strings.IndexFunc(w, func(r rune) bool { return !unicode.IsLower(r) && r != '-' }) < 0 {
			found = add(found, prefix, w, "")
		}
	}
	return found
}

// Fixed returns a Source of given candidates.
func Fixed(all []Candidate) Source {
	return func(_ []string, prefix string) (found []Candidate) {
		for _, c := range all {
			found = add(found, prefix, c.Text, c.Help)
		}
		return found
	}
}

func add(found []Candidate, prefix, text, help string) []Candidate {
	if !strings.HasPrefix(text, prefix) {
		return found
	}
	return append(found, Candidate{text, help})
}
