package demo

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// proof is what the receivers' files show.
type proof struct {
	in, out                            uint64
	lost, duplicated, outOfOrder, torn uint64
}

func (p proof) ok() bool {
	return p.in > 0 && p.in == p.out && p.lost+p.duplicated+p.outOfOrder+p.torn == 0
}

// prove reads the receivers' notes. sent is the number of lines of each source.
func prove(files []string, sent []uint64) (p proof, err error) {
	seen := make([][]uint64, len(sent)) // a bit for each line
	for s, n := range sent {
		seen[s] = make([]uint64, (n+63)/64)
		p.in += n
	}
	type key struct {
		source byte
		hash   uint64
	}
	type place struct {
		file int
		next uint64 // least offset that may follow
	}
	last := make(map[key]place)
	for i, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return p, err
		}
		r := bufio.NewReaderSize(f, 1<<20)
		var note [noteSize]byte
		for {
			_, err := io.ReadFull(r, note[:])
			if err == io.EOF {
				break
			}
			if errors.Is(err, io.ErrUnexpectedEOF) {
				p.torn++
				break
			}
			if err != nil {
				return p, errors.Join(err, f.Close())
			}
			p.out++
			source, offset := int(note[0]), binary.BigEndian.Uint64(note[1:])
			if source >= len(sent) || offset >= sent[source] {
				return p, errors.Join(fmt.Errorf("%s has line %d of source %d, which was never sent", name, offset, source), f.Close())
			}
			if w, m := &seen[source][offset/64], uint64(1)<<(offset%64); *w&m != 0 {
				p.duplicated++
			} else {
				*w |= m
			}
			k := key{note[0], binary.BigEndian.Uint64(note[9:])}
			at, known := last[k]
			if known && (at.file != i || offset < at.next) {
				p.outOfOrder++ // also a key that came to two receivers
			}
			last[k] = place{i, offset + 1}
		}
		if err := f.Close(); err != nil {
			return p, err
		}
	}
	for s, n := range sent {
		for o := range n {
			if seen[s][o/64]&(1<<(o%64)) == 0 {
				p.lost++
			}
		}
	}
	return p, nil
}
