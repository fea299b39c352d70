package config

import (
	"errors"
	"fmt"
	"strings"
)

// ErrInvalid matches every error of Load.
var ErrInvalid = errors.New("invalid config")

// invalid is an error of the config: one line for a person.
type invalid string

func (e invalid) Error() string        { return string(e) }
func (e invalid) Is(target error) bool { return target == ErrInvalid }

// wrapped is an error of the config that another package found.
type wrapped struct{ error }

func (e wrapped) Is(target error) bool { return target == ErrInvalid }
func (e wrapped) Unwrap() error        { return e.error }

// Errorf is fmt.Errorf for a mistake in a config that only the data or the memory of the
// machine shows. The error is ErrInvalid too.
func Errorf(format string, args ...any) error { return wrapped{fmt.Errorf(format, args...)} }

// source is the origin of values, for messages.
type source struct {
	file string
	line map[string]int    // in the file
	set  map[string]string // the --set that gave a key
}

// placeOf is the place where a key was given: a --set, or a line of the file.
func (s *source) placeOf(key string) string {
	if set, ok := s.set[key]; ok {
		return "--set " + set
	}
	for k := key; ; {
		if n, ok := s.line[k]; ok {
			return fmt.Sprintf("%s:%d", s.file, n)
		}
		i := strings.LastIndexByte(k, '.')
		if i < 0 {
			return s.file
		}
		k = k[:i]
	}
}

// errorf is an error about key.
func (s *source) errorf(key, format string, args ...any) error {
	return invalid(s.placeOf(key) + ": " + key + ": " + fmt.Sprintf(format, args...))
}

// mentions reports whether a key, or one under a table, was given anywhere.
func (s *source) mentions(table string) bool {
	if _, ok := s.line[table]; ok {
		return true
	}
	for key := range s.set {
		if key == table || strings.HasPrefix(key, table+".") {
			return true
		}
	}
	return false
}
