// Package invariant enables checks that are too slow for every build: they run in builds
// with the race detector or the tag "debug".
package invariant
