//go:build !cgo || !linux

package sgemm

import "errors"

// Library is an open library; there is none in this build.
type Library struct{}

// Open returns the error that this build opens no libraries.
func Open(path string) (*Library, error) {
	return nil, errors.New("libraries of products need an ecrec built with cgo on Linux")
}

// Name returns "".
func (l *Library) Name() string { return "" }

// Multiply panics: there is no Library in this build.
func (l *Library) Multiply(threads int, p *Product) error { panic("sgemm: not in this build") }
