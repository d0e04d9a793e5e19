module github.com/weirflow/weir/bench/peers

go 1.26.0

require (
	github.com/weirflow/weir v0.0.0
	golang.org/x/sys v0.50.0
)

replace github.com/weirflow/weir => ../..
