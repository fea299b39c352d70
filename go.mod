module github.com/ecrec/ecrec

go 1.25

require go.uber.org/goleak v1.3.0
require golang.org/x/sys v0.36.0
