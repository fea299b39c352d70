package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
)

// requestError is an error of a request, for its sender.
type requestError struct {
	status int
	text   string
}

func (e *requestError) Error() string { return e.text }

// badRequest is the error of a request that no model fits.
func badRequest(format string, args ...any) error {
	return &requestError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// notFound is the error of a table or a row that the model lacks.
func notFound(format string, args ...any) error {
	return &requestError{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

// errNoModel is the error of a request before there is a model.
var errNoModel = &requestError{http.StatusServiceUnavailable, "there is no model yet: no marker of the stream was applied, see /readyz"}

// inRow names the row of an error, from 0.
func inRow(i int, err error) error {
	var e *requestError
	if errors.As(err, &e) {
		return &requestError{e.status, fmt.Sprintf("row %d: %s", i+1, e.text)}
	}
	return err
}

// statusOf is the HTTP status of an error.
func statusOf(err error) int {
	var e *requestError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &e):
		return e.status
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// asRPC is an error with a code of gRPC.
func asRPC(err error) error {
	code := connect.CodeInternal
	switch statusOf(err) {
	case http.StatusBadRequest:
		code = connect.CodeInvalidArgument
	case http.StatusNotFound:
		code = connect.CodeNotFound
	case http.StatusServiceUnavailable:
		code = connect.CodeUnavailable
	case http.StatusRequestEntityTooLarge:
		code = connect.CodeResourceExhausted
	}
	return connect.NewError(code, err)
}
