package data

// avazuFormat is the registry's entry: CSV with the columns of Kaggle's Avazu.
var avazuFormat = Format{
	Name:    FormatAvazuCSV,
	Doc:     "csv with the columns of Kaggle's Avazu: click and 22 categories, hour among them; [data.csv] may name others",
	Endings: []string{".csv"},
	Keys:    csvTextFormat.Keys,
	Named:   &avazuColumns,
	Columns: csvTextFormat.Columns,
	Check:   checkCSV,
	text:    csvTextFormat.text,
}

// avazuColumns are the columns of train.csv, without id.
var avazuColumns = CSV{
	Label: "click",
	Categorical: []string{"hour", "C1", "banner_pos", "site_id", "site_domain", "site_category", "app_id", "app_domain", "app_category",
		"device_id", "device_ip", "device_model", "device_type", "device_conn_type", "C14", "C15", "C16", "C17", "C18", "C19", "C20", "C21"},
}
