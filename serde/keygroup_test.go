package serde_test

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirflow/weir/serde"
)

// TestHashCodes checks the observed hash codes of keys, and where the keys go.
func TestHashCodes(t *testing.T) {
	num := func(s string) *big.Int {
		v, _ := new(big.Int).SetString(s, 10)
		return v
	}
	date := serde.LocalDate{Year: 2024, Month: 2, Day: 29}
	clock := serde.LocalTime{Hour: 12, Minute: 34, Second: 56, Nano: 500000000}
	a, one, two := serde.HashString("a"), int32(1), serde.HashLong(2)
	for _, tc := range []struct {
		name               string
		hash, want, murmur int32
		kg128, kg32768     int
		op4, op3           int
	}{
		{"empty string", serde.HashString(""), 0, 593689054, 94, 31198, 2, 2},
		{"tuple without fields", serde.HashTuple(), 0, 593689054, 94, 31198, 2, 2},
		{"long -1", serde.HashLong(-1), 0, 593689054, 94, 31198, 2, 2},
		{"a", serde.HashString("a"), 97, 1455541201, 81, 19409, 2, 1},
		{"hello", serde.HashString("hello"), 99162322, 1715862179, 35, 31395, 1, 0},
		{"U+4E2D U+6587", serde.HashString("\u4e2d\u6587"), 646394, 464757671, 39, 9127, 1, 0},
		{"U+1F600", serde.HashString("\U0001f600"), 1772899, 1934073014, 54, 7350, 1, 1},
		{"int 1", serde.HashInt(1), 1, 68075478, 86, 16342, 2, 2},
		{"long 1<<32", serde.HashLong(1 << 32), 1, 68075478, 86, 16342, 2, 2},
		{"(null,1)", serde.HashTuple(0, 1), 1, 68075478, 86, 16342, 2, 2},
		{"int -1", serde.HashInt(-1), -1, 1982413648, 80, 15184, 2, 1},
		{"int 42", serde.HashInt(42), 42, 1134849565, 29, 28189, 0, 0},
		{"int max", serde.HashInt(math.MaxInt32), math.MaxInt32, 1653689534, 62, 19646, 1, 1},
		{"long min", serde.HashLong(math.MinInt64), math.MinInt32, 1718298732, 108, 10348, 3, 2},
		{"float -0", serde.HashFloat(float32(math.Copysign(0, -1))), math.MinInt32, 1718298732, 108, 10348, 3, 2},
		{"double -0", serde.HashDouble(math.Copysign(0, -1)), math.MinInt32, 1718298732, 108, 10348, 3, 2},
		{"long 123456789012", serde.HashLong(123456789012), -1097262584, 723049339, 123, 23419, 3, 2},
		{"true", serde.HashBoolean(true), 1231, 1090530765, 77, 11725, 2, 1},
		{"false", serde.HashBoolean(false), 1237, 1530821891, 3, 32003, 0, 0},
		{"float 1.5", serde.HashFloat(1.5), 1069547520, 376679366, 70, 11206, 2, 1},
		{"float NaN", serde.HashFloat(math.Float32frombits(0x7fc00001)), 2143289344, 1927335251, 83, 19795, 2, 1},
		{"double 1.5", serde.HashDouble(1.5), 1073217536, 1684538177, 65, 833, 2, 1},
		{"double NaN", serde.HashDouble(math.NaN()), 2146959360, 1585394089, 41, 12713, 1, 0},
		{"(a,1)", serde.HashTuple(a, one), 3008, 1123382429, 29, 29853, 0, 0},
		{"(a,1,2)", serde.HashTuple(a, one, two), 93250, 581006427, 91, 29787, 2, 2},
		{"IntValue 5", serde.HashInt(5), 5, 236698494, 126, 15230, 3, 2},
		{"LongValue 5", serde.HashLongValue(5), 48, 907422678, 86, 11222, 2, 2},
		{"BigInteger 10", serde.HashBigInt(big.NewInt(10)), 10, 848998979, 67, 12867, 2, 1},
		{"BigInteger -10", serde.HashBigInt(big.NewInt(-10)), -10, 1736508638, 94, 1246, 2, 2},
		{"BigInteger of 21 digits", serde.HashBigInt(num("123456789012345678901")), -1480862886, 386421890, 2, 21634, 0, 0},
		{"123.45", serde.HashDecimal(serde.Decimal{Unscaled: big.NewInt(12345), Scale: 2}), 382697, 1873610431, 63, 1727, 1, 1},
		{"1.0", serde.HashDecimal(serde.Decimal{Unscaled: big.NewInt(10), Scale: 1}), 311, 716133863, 103, 21991, 3, 2},
		{"-1.0", serde.HashDecimal(serde.Decimal{Unscaled: big.NewInt(-10), Scale: 1}), -309, 1632648518, 70, 15686, 2, 1},
		{"+I(1,a)", serde.HashRow(serde.Insert, serde.HashRowField(1), serde.HashRowField(a)), 2081, 1211684955, 91, 22619, 2, 2},
		{"-D(1,a)", serde.HashRow(serde.Delete, serde.HashRowField(1), serde.HashRowField(a)), 2174, 902049622, 86, 12118, 2, 2},
		{"+I(null)", serde.HashRow(serde.Insert, 0), 31, 1168509563, 123, 2683, 3, 2},
		{"[1,2]", serde.HashList(1, 2), 994, 853044911, 47, 28335, 1, 1},
		{"instant", serde.HashInstant(serde.Instant{Seconds: 1, Nanos: 5}), 256, 1409940790, 54, 32054, 1, 1},
		{"date", serde.HashLocalDate(date), 4145309, 125776286, 30, 12702, 0, 0},
		{"time", serde.HashLocalTime(clock), 1774906418, 1762184345, 25, 19609, 0, 0},
		{"date and time", serde.HashLocalDateTime(serde.LocalDateTime{Date: date, Time: clock}), 1777708207, 584578986, 42, 30634, 1, 0},
		{"Date 1000 ms", serde.HashLong(1000), 1000, 3506311, 7, 135, 0, 0},
		{"Timestamp 1001 ms", serde.HashLong(1001), 1001, 2131111877, 69, 12229, 2, 1},
		{"least murmur", -2089875627, -2089875627, 0, 0, 0, 0, 0},
	} {
		if tc.hash != tc.want {
			t.Errorf("%s: hash code %d, want %d", tc.name, tc.hash, tc.want)
		}
		if m := serde.MurmurHash(tc.hash); m != tc.murmur {
			t.Errorf("%s: murmur %d, want %d", tc.name, m, tc.murmur)
		}
		got := [4]int{serde.KeyGroup(tc.hash, 128), serde.KeyGroup(tc.hash, 32768), serde.ChannelOf(tc.hash, 128, 4), serde.ChannelOf(tc.hash, 128, 3)}
		if want := [4]int{tc.kg128, tc.kg32768, tc.op4, tc.op3}; got != want {
			t.Errorf("%s: groups and operators %v, want %v", tc.name, got, want)
		}
	}
	for _, tc := range []struct{ got, want int32 }{
		{serde.HashBooleanValue(true), 1}, {serde.HashBooleanValue(false), 0}, {serde.HashNullValue(), 53},
		{serde.HashDoubleValue(1.5), 31 + 1073217536},
		{serde.HashUUID([16]byte{3: 1, 7: 2, 11: 4, 15: 8}), 15},
		{serde.HashDecimal(serde.Decimal{Unscaled: num("123456789012345678901")}), 1337890790},
	} {
		if tc.got != tc.want {
			t.Errorf("got %d, want %d", tc.got, tc.want)
		}
	}
}

// TestHashAny checks that boxed values hash like unboxed ones, and that null and unstable keys are refused.
func TestHashAny(t *testing.T) {
	for _, tc := range []struct {
		v    any
		want int32
	}{
		{true, 1231}, {int8(-1), -1}, {int16(-1), -1}, {uint16(97), 97}, {int32(7), 7}, {int64(1 << 32), 1}, {float32(1.5), 1069547520},
		{1.5, 1073217536}, {"a", 97}, {big.NewInt(-10), -10}, {serde.Decimal{Unscaled: big.NewInt(10), Scale: 1}, 311},
		{serde.Instant{Seconds: 1, Nanos: 5}, 256}, {serde.LocalDate{Year: 2024, Month: 2, Day: 29}, 4145309},
		{serde.LocalTime{Hour: 12, Minute: 34, Second: 56, Nano: 500000000}, 1774906418}, {serde.LocalDateTime{}, 0}, {serde.Timestamp{Millis: 1001, Nanos: 1000000}, 1001},
		{serde.Timestamp{Millis: -1, Nanos: 999999999}, 0},
	} {
		if got, err := serde.HashAny(tc.v); got != tc.want || err != nil {
			t.Errorf("%T %v: %d, %v; want %d", tc.v, tc.v, got, err, tc.want)
		}
	}
	for _, v := range []any{nil, (*big.Int)(nil), serde.Decimal{}} {
		if _, err := serde.HashAny(v); !errors.Is(err, serde.ErrNull) {
			t.Errorf("%T: %v", v, err)
		}
	}
	for _, v := range []any{[]byte("x"), struct{}{}, 5} {
		if _, err := serde.HashAny(v); !errors.Is(err, serde.ErrUnstableKey) {
			t.Errorf("%T: %v", v, err)
		}
	}
}

// TestKeyGroupRanges checks, for all pairs of numbers drawn, that the ranges cut the groups up without gap or overlap, and
// that each group's operator is the one whose range holds it.
func TestKeyGroupRanges(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, m, p int) {
		next := 0
		for i := range p {
			first, last := serde.KeyGroupRange(m, p, i)
			if first != next || last < first {
				t.Fatalf("M=%d P=%d: range %d is %d-%d, want one from %d", m, p, i, first, last, next)
			}
			for _, kg := range []int{first, last} {
				if op := serde.OperatorIndex(m, p, kg); op != i {
					t.Fatalf("M=%d P=%d: group %d belongs to %d, not to %d", m, p, kg, op, i)
				}
			}
			next = last + 1
		}
		if next != m {
			t.Fatalf("M=%d P=%d: %d groups covered", m, p, next)
		}
	}
	check(t, 128, 3)
	check(t, 10, 4)
	check(t, serde.MaxParallelism, serde.MaxParallelism)
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(1, serde.MaxParallelism).Draw(t, "groups")
		p := rapid.IntRange(1, min(m, 2000)).Draw(t, "parallelism")
		check(t, m, p)
		hash := rapid.Int32().Draw(t, "hash")
		kg := serde.KeyGroup(hash, m)
		if ch := serde.ChannelOf(hash, m, p); kg < 0 || kg >= m || ch < 0 || ch >= p {
			t.Fatalf("hash %d: group %d of %d, channel %d of %d", hash, kg, m, ch, p)
		}
	})
}

// TestParallelism checks bounds and defaults.
func TestParallelism(t *testing.T) {
	for p, want := range map[int]int{-1: 128, 0: 128, 1: 128, 85: 128, 86: 256, 128: 256, 170: 256, 171: 256, 200: 512, 1000: 2048, 21845: 32768, 32768: 32768, math.MaxInt32: 32768} {
		if got := serde.DefaultMaxParallelism(p); got != want {
			t.Errorf("%d: got %d, want %d", p, got, want)
		}
	}
	for _, tc := range []struct {
		m, p int
		ok   bool
	}{{1, 1, true}, {32768, 32768, true}, {128, 129, false}, {0, 0, false}, {32769, 1, false}, {128, 0, false}, {128, -1, false}} {
		if err := serde.CheckParallelism(tc.m, tc.p); (err == nil) != tc.ok || err != nil && !errors.Is(err, serde.ErrParallelism) {
			t.Errorf("%d, %d: %v", tc.m, tc.p, err)
		}
	}
	// Numbers out of bounds mean nothing, but do no harm.
	serde.KeyGroupRange(0, 0, 0)
	if serde.ChannelOf(5, 0, 0) != 0 {
		t.Error("a channel without key groups")
	}
}
