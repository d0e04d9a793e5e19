package align

import (
	"encoding/hex"
	"errors"
	"reflect"
	"testing"
)

func TestStateHandleBytes(t *testing.T) {
	file := StateHandle{Subtask: 2, Channel: StateChannel{1, 3}, Offsets: []int64{4, 22}, Size: 12,
		Stream: StreamHandle{Path: "/a", Size: 35}}
	small := StateHandle{Subtask: 1, Offsets: []int64{4}, Size: 9, Stream: StreamHandle{Data: []byte{7}, Name: "n", Size: 1}}
	none := StateHandle{Offsets: []int64{}}
	channel := "00000001" + "00000003" + "00000002" + "0000000000000004" + "0000000000000016" + "000000000000000c"
	stream := "02" + "0000000000000023" + "0002" + "2f61"
	for _, tc := range []struct {
		version int
		output  bool
		h       StateHandle
		want    string
	}{
		{5, false, file, "00000002" + channel + stream},
		{6, false, file, "01" + "00000002" + channel + stream},
		{6, true, file, "02" + "00000002" + channel + stream},
		{3, false, small, "00000001" + "0000000000000000" + "00000001" + "0000000000000004" + "0000000000000009" + "01" + "0001" + "6e" + "00000001" + "07"},
		{4, false, none, "00000000" + "0000000000000000" + "00000000" + "0000000000000000" + "00"},
	} {
		p, err := AppendStateHandle(nil, tc.version, tc.output, &tc.h)
		check(t, err)
		if got := hex.EncodeToString(p); got != tc.want {
			t.Errorf("version %d:\nwant %s\ngot  %s", tc.version, tc.want, got)
		}
		hs, output, rest, err := DecodeStateHandle(append(p, 99), tc.version)
		check(t, err)
		if len(hs) != 1 || !reflect.DeepEqual(hs[0], tc.h) || output != tc.output || len(rest) != 1 {
			t.Errorf("version %d: got %+v, output %v, rest %x", tc.version, hs, output, rest)
		}
		for n := range p {
			if _, _, _, err := DecodeStateHandle(p[:n], tc.version); !errors.Is(err, ErrStateFile) {
				t.Errorf("version %d, %d bytes: %v", tc.version, n, err)
			}
		}
	}
	second := file
	second.Channel = StateChannel{1, 4}
	for _, output := range []bool{false, true} {
		p, err := AppendMergedStateHandles(nil, output, []StateHandle{file, second})
		check(t, err)
		hs, out, rest, err := DecodeStateHandle(p, 6)
		check(t, err)
		if !reflect.DeepEqual(hs, []StateHandle{file, second}) || out != output || len(rest) != 0 {
			t.Errorf("merged: %+v", hs)
		}
		for n := range p {
			if _, _, _, err := DecodeStateHandle(p[:n], 6); !errors.Is(err, ErrStateFile) {
				t.Errorf("merged, %d bytes: %v", n, err)
			}
		}
	}
	if _, err := AppendMergedStateHandles(nil, false, []StateHandle{small, file}); !errors.Is(err, ErrConfig) {
		t.Errorf("two streams: %v", err)
	}
	if _, err := AppendMergedStateHandles(nil, false, nil); !errors.Is(err, ErrConfig) {
		t.Errorf("none: %v", err)
	}
	if _, err := AppendStateHandle(nil, 2, false, &file); !errors.Is(err, ErrConfig) {
		t.Errorf("version 2: %v", err)
	}
	relative, _, _, err := DecodeStateHandle([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"+
		"\x06\x00\x01f\x00\x00\x00\x00\x00\x00\x00\x05"), 5)
	if err != nil || relative[0].Stream.Path != "f" || relative[0].Stream.Size != 5 {
		t.Errorf("relative: %+v, %v", relative, err)
	}
}

// FuzzChannelState reads any bytes as a handle of either form, and as a file of channel state.
func FuzzChannelState(f *testing.F) {
	h := StateHandle{Subtask: 2, Channel: StateChannel{1, 3}, Offsets: []int64{4, 11}, Size: 12,
		Stream: StreamHandle{Data: []byte{0, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 1, 9}, Name: "n"}}
	for version := 5; version <= 6; version++ {
		p, err := AppendStateHandle(nil, version, true, &h)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
	}
	h.Stream = StreamHandle{Path: "p", Size: 3}
	p, err := AppendMergedStateHandles(nil, false, []StateHandle{h, h})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p)
	f.Add(h.Stream.Data)
	f.Fuzz(func(t *testing.T, p []byte) {
		for version := 5; version <= 6; version++ {
			hs, _, rest, err := DecodeStateHandle(p, version)
			if err != nil {
				if !errors.Is(err, ErrStateFile) {
					t.Fatal(err)
				}
				continue
			}
			if len(rest) > len(p) {
				t.Fatal("more is left than there was")
			}
			for _, h := range hs {
				if h.Stream.Data == nil {
					continue
				}
				c := &collect{size: 8, got: map[string][]byte{}}
				if err := ReadChannelState(&DirStore{}, []StateHandle{h}, c); err != nil && !errors.Is(err, ErrStateFile) {
					t.Fatal(err)
				}
			}
		}
		c := &collect{size: 16, got: map[string][]byte{}}
		h := StateHandle{Offsets: []int64{4}, Stream: StreamHandle{Data: p}}
		if err := ReadChannelState(&DirStore{}, []StateHandle{h}, c); err != nil && !errors.Is(err, ErrStateFile) {
			t.Fatal(err)
		}
	})
}
