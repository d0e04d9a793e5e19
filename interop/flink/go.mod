module github.com/weirflow/weir/interop/flink

go 1.26.0

require github.com/weirflow/weir v0.0.0

require (
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/weirflow/weir => ../..
