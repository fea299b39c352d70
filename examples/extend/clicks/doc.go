// Package clicks is an example of a data format: binary records of a fixed size, for any number
// of tables.
package clicks
