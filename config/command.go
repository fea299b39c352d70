package config

import "fmt"

// Command is a command that ecrec runs: one string, for the shell, or a list of a program
// and its arguments; empty: none.
type Command []string

// UnmarshalTOML implements unstable.Unmarshaler.
func (c *Command) UnmarshalTOML(raw []byte) error {
	return decode(raw, func(v any) error {
		const want = errWant("a command for the shell, or a list of a program and its arguments")
		list, isList := v.([]any)
		if !isList {
			list = []any{v}
		}
		out := Command{}
		for _, e := range list {
			s, ok := e.(string)
			if !ok {
				return want
			}
			out = append(out, s)
		}
		if len(out) == 1 && out[0] == "" {
			out = Command{}
		}
		if len(out) > 0 && out[0] == "" {
			return fmt.Errorf("%w: the name of the program is empty", want)
		}
		*c = out
		return nil
	})
}

// Argv are the program to run and its arguments; nil: there is no command.
func (c Command) Argv() []string {
	switch len(c) {
	case 0:
		return nil
	case 1:
		return []string{"/bin/sh", "-c", c[0]}
	}
	return c
}
