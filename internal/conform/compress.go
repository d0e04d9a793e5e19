package conform

import (
	"errors"
	"fmt"

	"github.com/weirflow/weir/credit"
)

// checkCompress decompresses what Flink compressed, and compresses the original and decompresses that. Compressors may
// choose other bytes, but they agree on what does not shrink at all.
func checkCompress(v *Vector) error {
	const bufferSize = 32 << 10
	var f struct {
		Codec                        string
		Compressed                   bool
		OriginalSize, CompressedSize int
		Original                     HexBytes
	}
	if err := v.Fields.Decode(&f); err != nil {
		return err
	}
	codec, err := credit.ParseCodec(f.Codec)
	if err != nil {
		return err
	}
	if f.CompressedSize != len(v.Hex) || f.OriginalSize != len(f.Original) {
		return errors.New("sizes do not fit the bytes")
	}
	d, err := credit.NewDecompressor(codec, bufferSize)
	if err != nil {
		return err
	}
	defer d.Close()
	c, err := credit.NewCompressor(codec, bufferSize)
	if err != nil {
		return err
	}
	defer c.Close()
	back := make([]byte, bufferSize)
	check := func(what string, block []byte) error {
		n, err := d.Decompress(back, block)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return sameBytes(what, f.Original, back[:n])
	}
	if !f.Compressed {
		if err := sameBytes("not compressed", f.Original, v.Hex); err != nil {
			return err
		}
	} else if err := check("decompressed", v.Hex); err != nil {
		return err
	}
	block, ok := c.Compress(f.Original)
	if !ok {
		if f.Compressed {
			return errors.New("Flink's compressor made it smaller, ours did not")
		}
		return nil
	}
	if len(block) >= len(f.Original) {
		return fmt.Errorf("%d bytes became %d", len(f.Original), len(block))
	}
	return check("compressed and decompressed", block)
}
