// Package concat is an example of a model kind: dense features and embedding rows side by
// side, then two layers.
package concat
