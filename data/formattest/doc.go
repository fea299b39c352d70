// Package formattest is the conformance suite of data formats: values, random access
// that reads a bounded part of a file, malformed samples, files that are cut short,
// and conversion that happens once.
package formattest
