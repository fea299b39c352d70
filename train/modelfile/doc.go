// Package modelfile loads and saves a model as one safetensors file, with all ranks of a job.
//
// The file holds the dense parameters under their own names. Each part of a row is a tensor
// per table, of (rows, width of the part): model.Part names it. The file holds no optimizer
// state. Its metadata is the recipe of the model (Describe): the config of the run, and the way
// from a row of raw data to a sample. A file without metadata loads too.
//
// To load, every rank reads the tables and keeps the rows that it owns. To save, rank 0
// writes, and all owners send it their rows, a chunk of a table at a time: no rank needs
// memory for a table.
package modelfile
