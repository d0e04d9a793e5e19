package demo

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"hash/fnv"
)

// A record is a line behind who it is: source (1 byte), number of the line at the source (8), CRC-32C of the line (4).
const headSize = 1 + 8 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendRecord(dst []byte, source int, offset uint64, line []byte) []byte {
	dst = append(dst, byte(source))
	dst = binary.BigEndian.AppendUint64(dst, offset)
	dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(line, castagnoli))
	return append(dst, line...)
}

var errCorrupt = errors.New("a line is not what was sent")

// parseRecord checks the line against its sum.
func parseRecord(rec []byte) (source int, offset uint64, line []byte, err error) {
	if len(rec) < headSize {
		return 0, 0, nil, errCorrupt
	}
	line = rec[headSize:]
	if crc32.Checksum(line, castagnoli) != binary.BigEndian.Uint32(rec[9:]) {
		return 0, 0, nil, errCorrupt
	}
	return int(rec[0]), binary.BigEndian.Uint64(rec[1:]), line, nil
}

// What a receiver writes down of a line: source (1), offset (8), a hash of its key (8).
const noteSize = 1 + 8 + 8

func appendNote(dst []byte, source int, offset uint64, key []byte) []byte {
	dst = append(dst, byte(source))
	dst = binary.BigEndian.AppendUint64(dst, offset)
	h := fnv.New64a()
	_, _ = h.Write(key) // a hash never fails
	return binary.BigEndian.AppendUint64(dst, h.Sum64())
}
