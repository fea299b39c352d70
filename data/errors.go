package data

import (
	"errors"
	"fmt"
	"strings"
)

// ErrInput matches, by errors.Is, every error that the user's data or settings cause.
// Errors of the machine and of ecrec do not match.
var ErrInput = errors.New("bad input")

// Error is a mistake in the input: its place and its remedy.
type Error struct {
	File string // "" when no file is at fault
	Line int64  // from 1; 0 when no line is at fault
	What string
	Err  error // the cause, if another package reported one
}

func (e *Error) Error() string {
	var s strings.Builder
	if e.File != "" {
		s.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&s, ":%d", e.Line)
		}
		s.WriteString(": ")
	}
	s.WriteString(e.What)
	if e.Err != nil {
		s.WriteString(": ")
		s.WriteString(e.Err.Error())
	}
	return s.String()
}

// Is makes every Error an ErrInput.
func (e *Error) Is(target error) bool { return target == ErrInput }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func fileErr(file, format string, args ...any) *Error {
	return &Error{File: file, What: fmt.Sprintf(format, args...)}
}

func usageErr(format string, args ...any) *Error {
	return &Error{What: fmt.Sprintf(format, args...)}
}

// notRead is the error of a column of a sound file that uses an old feature of the format.
type notRead string

func (e notRead) Error() string { return string(e) }
