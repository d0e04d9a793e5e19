module github.com/weirflow/weir

go 1.26.0

require (
	github.com/klauspost/compress v1.20.4
	github.com/pierrec/lz4/v4 v4.1.33
	golang.org/x/sys v0.50.0
)

require (
	github.com/anishathalye/porcupine v1.3.1 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)
