package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// allowed is how much slower a benchmark may become, as a share.
const allowed = 0.10

// verdict is what benchstat's table says.
type verdict struct {
	compared, alone   int
	slower, allocates []string
}

// judge reads benchstat's CSV: for each unit a heading with the units of both columns, then rows of a name, the first value, its
// spread, the second value, its spread, the change (or ~ if it is not significant) and its probability.
func judge(text string) (v verdict, err error) {
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord = -1
	unit := ""
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return v, nil
		}
		if err != nil {
			return v, fmt.Errorf("benchstat's table: %w", err)
		}
		switch {
		case len(row) < 2:
		case row[0] == "" && strings.Contains(row[1], "/"):
			unit = row[1]
		case row[0] != "" && row[0] != "geomean" && unit != "":
			if err := v.row(unit, row); err != nil {
				return v, err
			}
		}
	}
}

// rival tells whether a benchmark is of something that weir is compared with: it decides nothing.
func rival(name string) bool {
	_, impl, ok := strings.Cut(name, "impl=")
	return ok && !strings.HasPrefix(impl, "weir")
}

func (v *verdict) row(unit string, row []string) error {
	if rival(row[0]) {
		return nil
	}
	if len(row) < 6 || row[1] == "" || row[3] == "" {
		if unit == "sec/op" {
			v.alone++
		}
		return nil
	}
	before, err := strconv.ParseFloat(row[1], 64)
	if err != nil {
		return fmt.Errorf("benchstat's table, %s: %w", row[0], err)
	}
	after, err := strconv.ParseFloat(row[3], 64)
	if err != nil {
		return fmt.Errorf("benchstat's table, %s: %w", row[0], err)
	}
	line := fmt.Sprintf("%s: %s, %g to %g", row[0], unit, before, after)
	switch unit {
	case "sec/op":
		v.compared++
		if row[5] != "~" && after > before*(1+allowed) {
			v.slower = append(v.slower, line+" ("+strings.Join(row[5:], ", ")+")")
		}
	case "allocs/op":
		if after > before {
			v.allocates = append(v.allocates, line)
		}
	}
	return nil
}
