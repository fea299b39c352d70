// Package placement computes where rows are stored, by arithmetic alone. Row
// (table, id) has the global number g = base[table] + id. Of M owners, rank g mod M
// stores it, in slot g div M. There is no directory, and the rows are balanced by
// construction.
package placement
