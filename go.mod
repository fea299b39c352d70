module github.com/ecrec/ecrec

go 1.25

require (
	github.com/pelletier/go-toml/v2 v2.4.3
	github.com/zeebo/xxh3 v1.1.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.36.0
)

require github.com/klauspost/cpuid/v2 v2.2.10 // indirect
