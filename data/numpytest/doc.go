// Package numpytest writes arrays as NumPy does, and the files of the format criteo-numpy, for tests.
package numpytest
