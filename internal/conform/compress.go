package conform

import (
	"errors"
	"fmt"

	"github.com/weirflow/weir/credit"
)

// checkCompress decompresses what Flink compressed, and compresses the original and decompresses that. Compressors may
// choose other bytes, so that the one may still find a few to save where the other gives up; but not many.
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
		if saved := f.OriginalSize - f.CompressedSize; f.Compressed && saved > missable(f.OriginalSize) {
			return fmt.Errorf("Flink's compressor saved %d of %d bytes, ours none", saved, f.OriginalSize) //nolint:staticcheck // a name
		}
		return nil
	}
	if len(block) >= len(f.Original) {
		return fmt.Errorf("%d bytes became %d", len(f.Original), len(block))
	}
	return check("compressed and decompressed", block)
}

// missable is how many bytes of a block a compressor may fail to save: the shortest blocks are too short for some to look at,
// and repetitions of four or five bytes, which save one or two each, are not worth the search to all.
func missable(original int) int { return 64 + original/8 }
