// Package chart draws lines over a numeric axis, and groups of bars, as SVG for a page or as a file.
//
// # Looks
//
// A series has a number. Its colour, its marker, its dashes and the hatching of its bars follow from it, so that a series differs from
// others also without colour, and one number looks the same on all charts. Values of a paper are hollow.
//
// On a page, colours are variables of CSS: --c0 to --c7 for series, --ink, --muted, --grid and --paper. A page sets them for a light and
// a dark scheme. The legend of a chart on a page is text of the page, with swatches of this package. A file has the light colours, and a
// title, a legend and a caption outside of the frame.
//
// # Invariants
//
// The output is a function of the chart. An axis is logarithmic only if all its values are greater than zero.
package chart
