module github.com/ecrec/ecrec

go 1.25

require github.com/pelletier/go-toml/v2 v2.4.3
