//go:build !linux

package transport

import "errors"

// On systems other than Linux the goroutines of a link read and write all frames.
const isPrompt = false

func readNow(int, []byte) (int, error) { return 0, errors.ErrUnsupported }

func writeNow(int, [][]byte) (int, error) { return 0, errors.ErrUnsupported }
