module github.com/ecrec/ecrec

go 1.25
