// Package placement says where rows live, by arithmetic alone (DESIGN.md
// section 3): row (table, id) has the global number g = base[table] + id; its
// owner is g mod M and its slot there g div M. There is no directory, and the
// rows are balanced by construction.
package placement
