// Package regular opens files whose names are given by users: a config, data, a model, a manifest.
//
// Such a name may lead to a pipe without a writer, or to an endless device. Open always returns
// at once, and refuses files that are not regular before reading a byte. A read of an opened file
// ends at the size that Stat returns.
package regular
