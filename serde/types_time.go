package serde

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Dates and times have null as one of their values, as they have on the wire; IsNull tells.

// NullDate is the value of a null java.util.Date, sql.Date or sql.Time.
const NullDate int64 = math.MinInt64

// DateSerializer encodes java.util.Date, sql.Date and sql.Time: i64 milliseconds since 1970; NullDate is null.
type DateSerializer struct{ LongSerializer }

// Instant is a point in time (java.time.Instant).
type Instant struct {
	Seconds int64 // since 1970
	Nanos   int32 // 0 to 999999999
}

// NullInstant is the null Instant.
var NullInstant = Instant{math.MinInt64, math.MinInt32}

// The range of java.time.Instant.
const (
	minInstant = -31557014167219200
	maxInstant = 31556889864403199
)

// IsNull tells whether the value is null.
func (v Instant) IsNull() bool { return v == NullInstant }

// InstantOf returns the Instant of a time.
func InstantOf(t time.Time) Instant { return Instant{t.Unix(), int32(t.Nanosecond())} }

// Time returns the time in UTC.
func (v Instant) Time() time.Time { return time.Unix(v.Seconds, int64(v.Nanos)).UTC() }

// InstantSerializer encodes an Instant: i64 seconds, i32 nanoseconds; null is the least of both.
type InstantSerializer struct{}

// Append appends an instant or null.
func (InstantSerializer) Append(dst []byte, v Instant) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(v.Seconds))
	return binary.BigEndian.AppendUint32(dst, uint32(v.Nanos))
}

// Decode reads an instant or null. Nanoseconds out of range are carried over to the seconds, as in Java.
func (InstantSerializer) Decode(p []byte) (Instant, int, error) {
	if len(p) < 12 {
		return Instant{}, 0, ErrTruncated
	}
	v := Instant{int64(binary.BigEndian.Uint64(p)), int32(binary.BigEndian.Uint32(p[8:]))}
	if v.IsNull() {
		return v, 12, nil
	}
	if v.Seconds >= minInstant && v.Seconds <= maxInstant {
		carry := int64(v.Nanos) / 1e9
		if v.Nanos -= int32(carry * 1e9); v.Nanos < 0 {
			v.Nanos += 1e9
			carry--
		}
		v.Seconds += carry
	}
	if v.Seconds < minInstant || v.Seconds > maxInstant {
		return Instant{}, 0, fmt.Errorf("%w: instant of %d seconds", ErrCorrupt, v.Seconds)
	}
	return v, 12, nil
}

// Len returns 12.
func (InstantSerializer) Len() int { return 12 }

// Timestamp is a java.sql.Timestamp. Nanos include the milliseconds of the second.
type Timestamp struct {
	Millis int64 // since 1970, rounded down
	Nanos  int32 // of the second, 0 to 999999999
}

// NullTimestamp is the null Timestamp.
var NullTimestamp = Timestamp{math.MinInt64, 0}

// IsNull tells whether the value is null.
func (v Timestamp) IsNull() bool { return v.Millis == math.MinInt64 }

// TimestampOf returns the Timestamp of a time.
func TimestampOf(t time.Time) Timestamp { return Timestamp{t.UnixMilli(), int32(t.Nanosecond())} }

// Time returns the time in UTC.
func (v Timestamp) Time() time.Time {
	s := v.Millis / 1000
	if v.Millis%1000 < 0 {
		s--
	}
	return time.Unix(s, int64(v.Nanos)).UTC()
}

// TimestampSerializer encodes a java.sql.Timestamp: i64 milliseconds, i32 nanoseconds of the second; null is the least
// number of milliseconds and 0. Flink itself doesn't read the nanoseconds of a null that it has written; Decode does.
type TimestampSerializer struct{}

// Append appends a timestamp or null.
func (TimestampSerializer) Append(dst []byte, v Timestamp) []byte {
	if v.IsNull() {
		v = NullTimestamp
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(v.Millis))
	return binary.BigEndian.AppendUint32(dst, uint32(v.Nanos))
}

// Decode reads a timestamp or null.
func (TimestampSerializer) Decode(p []byte) (Timestamp, int, error) {
	if len(p) < 12 {
		return Timestamp{}, 0, ErrTruncated
	}
	v := Timestamp{int64(binary.BigEndian.Uint64(p)), int32(binary.BigEndian.Uint32(p[8:]))}
	if v.IsNull() {
		return NullTimestamp, 12, nil
	}
	if v.Nanos < 0 || v.Nanos > 999999999 {
		return Timestamp{}, 0, fmt.Errorf("%w: timestamp with %d nanoseconds", ErrCorrupt, v.Nanos)
	}
	return v, 12, nil
}

// Len returns 12.
func (TimestampSerializer) Len() int { return 12 }

// LocalDate is a date without a time zone (java.time.LocalDate).
type LocalDate struct {
	Year  int32 // -999999999 to 999999999
	Month uint8 // 1 to 12
	Day   uint8 // 1 to the length of the month
}

// LocalTime is a time of day (java.time.LocalTime).
type LocalTime struct {
	Hour, Minute, Second uint8
	Nano                 int32 // 0 to 999999999
}

// LocalDateTime is a date and a time (java.time.LocalDateTime); null if both are.
type LocalDateTime struct {
	Date LocalDate
	Time LocalTime
}

// The null values.
var (
	NullLocalDate     = LocalDate{math.MinInt32, 0x80, 0}
	NullLocalTime     = LocalTime{0x80, 0x80, 0, math.MinInt32}
	NullLocalDateTime = LocalDateTime{NullLocalDate, NullLocalTime}
)

// IsNull tells whether the value is null.
func (v LocalDate) IsNull() bool { return v.Year == math.MinInt32 }

// IsNull tells whether the value is null.
func (v LocalTime) IsNull() bool { return v.Hour == 0x80 }

// IsNull tells whether the value is null.
func (v LocalDateTime) IsNull() bool { return v.Date.IsNull() && v.Time.IsNull() }

func (v LocalDate) valid() bool {
	if v.Year < -999999999 || v.Year > 999999999 || v.Month < 1 || v.Month > 12 {
		return false
	}
	return v.Day >= 1 && v.Day <= monthLen(v.Year, v.Month)
}

func monthLen(year int32, month uint8) uint8 {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

func (v LocalTime) valid() bool {
	return v.Hour < 24 && v.Minute < 60 && v.Second < 60 && v.Nano >= 0 && v.Nano <= 999999999
}

// LocalDateSerializer encodes a LocalDate: i32 year, u8 month, u8 day; null is NullLocalDate.
type LocalDateSerializer struct{}

// Append appends a date or null.
func (LocalDateSerializer) Append(dst []byte, v LocalDate) []byte {
	if v.IsNull() {
		v = NullLocalDate
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(v.Year)), v.Month, v.Day)
}

// Decode reads a date or null.
func (LocalDateSerializer) Decode(p []byte) (LocalDate, int, error) {
	if len(p) < 6 {
		return LocalDate{}, 0, ErrTruncated
	}
	v := LocalDate{int32(binary.BigEndian.Uint32(p)), p[4], p[5]}
	if v.IsNull() {
		return NullLocalDate, 6, nil
	}
	if !v.valid() {
		return LocalDate{}, 0, fmt.Errorf("%w: date %d-%d-%d", ErrCorrupt, v.Year, v.Month, v.Day)
	}
	return v, 6, nil
}

// Len returns 6.
func (LocalDateSerializer) Len() int { return 6 }

// LocalTimeSerializer encodes a LocalTime: u8 hour, u8 minute, u8 second, i32 nanosecond; null is NullLocalTime.
type LocalTimeSerializer struct{}

// Append appends a time or null.
func (LocalTimeSerializer) Append(dst []byte, v LocalTime) []byte {
	if v.IsNull() {
		v = NullLocalTime
	}
	return binary.BigEndian.AppendUint32(append(dst, v.Hour, v.Minute, v.Second), uint32(v.Nano))
}

// Decode reads a time or null.
func (LocalTimeSerializer) Decode(p []byte) (LocalTime, int, error) {
	if len(p) < 7 {
		return LocalTime{}, 0, ErrTruncated
	}
	v := LocalTime{p[0], p[1], p[2], int32(binary.BigEndian.Uint32(p[3:]))}
	if v.IsNull() {
		return NullLocalTime, 7, nil
	}
	if !v.valid() {
		return LocalTime{}, 0, fmt.Errorf("%w: time %d:%d:%d.%09d", ErrCorrupt, v.Hour, v.Minute, v.Second, v.Nano)
	}
	return v, 7, nil
}

// Len returns 7.
func (LocalTimeSerializer) Len() int { return 7 }

// LocalDateTimeSerializer encodes a LocalDateTime: the date, then the time; null is both null.
type LocalDateTimeSerializer struct{}

// Append appends a date and time, or null.
func (LocalDateTimeSerializer) Append(dst []byte, v LocalDateTime) []byte {
	return LocalTimeSerializer{}.Append(LocalDateSerializer{}.Append(dst, v.Date), v.Time)
}

// Decode reads a date and time, or null; one null and one not is corrupt.
func (LocalDateTimeSerializer) Decode(p []byte) (v LocalDateTime, n int, err error) {
	if v.Date, n, err = (LocalDateSerializer{}).Decode(p); err != nil {
		return LocalDateTime{}, 0, err
	}
	if v.Time, _, err = (LocalTimeSerializer{}).Decode(p[n:]); err != nil {
		return LocalDateTime{}, 0, err
	}
	if v.Date.IsNull() != v.Time.IsNull() {
		return LocalDateTime{}, 0, fmt.Errorf("%w: only one of date and time is null", ErrCorrupt)
	}
	return v, 13, nil
}

// Len returns 13.
func (LocalDateTimeSerializer) Len() int { return 13 }
