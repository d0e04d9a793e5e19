package conform

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirflow/weir/serde"
)

// isoText makes a parser of text one of a JSON string.
func isoText[T any](parse func(string) (T, error)) func(json.RawMessage) (T, error) {
	return func(p json.RawMessage) (v T, err error) {
		s, err := parseJSON[string](p)
		if err != nil {
			return v, err
		}
		if v, err = parse(s); err != nil {
			return v, fmt.Errorf("%q: %w", s, err)
		}
		return v, nil
	}
}

// parseDate reads a date as Java prints it: years outside of 0 to 9999 have a sign.
func parseDate(s string) (v serde.LocalDate, err error) {
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	parts := strings.Split(s, "-")
	if len(parts) != 3 {
		return v, fmt.Errorf("not a date")
	}
	parts[0] = sign + parts[0]
	n, err := numbers(parts)
	if err != nil {
		return v, err
	}
	return serde.LocalDate{Year: int32(n[0]), Month: uint8(n[1]), Day: uint8(n[2])}, nil
}

// parseTime reads a time as Java prints it, without seconds or fractions that are 0.
func parseTime(s string) (v serde.LocalTime, err error) {
	s, frac, _ := strings.Cut(s, ".")
	parts := strings.Split(s, ":")
	if len(parts) == 2 {
		parts = append(parts, "0")
	}
	if len(parts) != 3 || len(frac) > 9 {
		return v, fmt.Errorf("not a time")
	}
	n, err := numbers(append(parts, frac+strings.Repeat("0", 9-len(frac))))
	if err != nil {
		return v, err
	}
	return serde.LocalTime{Hour: uint8(n[0]), Minute: uint8(n[1]), Second: uint8(n[2]), Nano: int32(n[3])}, nil
}

func parseDateTime(s string) (v serde.LocalDateTime, err error) {
	date, time, _ := strings.Cut(s, "T")
	if v.Date, err = parseDate(date); err != nil {
		return v, err
	}
	v.Time, err = parseTime(time)
	return v, err
}

func numbers(parts []string) ([]int, error) {
	var all []int
	for _, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}
