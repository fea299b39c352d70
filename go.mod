module github.com/ecrec/ecrec

go 1.25

require golang.org/x/sys v0.36.0
