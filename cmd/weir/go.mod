module github.com/weirflow/weir/cmd/weir

go 1.26.0

require (
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	github.com/weirflow/weir v0.0.0
	software.sslmate.com/src/go-pkcs12 v0.7.4
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	golang.org/x/crypto v0.11.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/weirflow/weir => ../..
