package data

// The formats that code names.
const (
	FormatSynthetic = "synthetic"
	FormatCriteoBin = "criteo-bin"
	FormatCriteoTSV = "criteo-tsv"
	FormatCSV       = "csv"
	FormatParquet   = "parquet"
	FormatAvazuCSV  = "avazu-csv"
	FormatRecord    = "record" // the format that Convert writes

	FormatCriteoNumPy = "criteo-numpy"

	FormatKafka = "kafka"
)

// recordMagic is the beginning of a record file.
const recordMagic = "ECRECREC"
