// Package paper draws the figures and tables of the papers that ecrec joins, from reports of benchmarks, on one page.
//
// # Terms
//
// A figure is a figure, a table or a number in the text of a paper's evaluation. Its id is the letter of the paper and its number
// there: E5, B7, O10, T6.1. E is ECRec (VLDB'23), B is BagPipe (SOSP'23), O is OpenEmbedding (ICDE'23), T is Continuous
// Checkpointing (Buffalo, 2024).
// A drawing makes a figure from the reports of some runs of benchmarks.
// A value of a paper is a number in its text, or one computed from such numbers. Curves whose points are only in a picture have none.
// A check is a statement about the shape of a figure that our values keep or break: "LRPP sends fewer rows than replicated caches".
// A check of times with fewer repeats than an interval of 95 % needs (package paired) agrees or disagrees. It is not counted as evidence that
// the shape of the figure holds or differs.
//
// # Data
//
//	papers.toml ── values of the papers ─────────────┐
//	bench.Run ──── reports, a JSON file each ── Draw ─┴─ Figure ── page, report.json, a CSV file for each figure
//
// Only the runs measure. Everything after them is a function of the reports: drawing a folder of reports again gives the same page.
//
// # Evidence
//
// Each value has the kind of its evidence (bench.Evidence), and the page shows it beside the value.
package paper
