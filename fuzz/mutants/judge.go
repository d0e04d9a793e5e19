package main

import (
	"regexp"
	"strings"
)

// outcome is how one run of a test binary ended.
type outcome struct {
	tests  map[string]string // "PASS", "FAIL" or "SKIP", by the test's name; not there: it was not run to its end
	failed bool              // the run as a whole
	hung   bool
	how    string // it failed, in a line
	text   string // all that it wrote
}

var (
	testLine  = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\S+) \(`)
	crashLine = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*|SIG[A-Z]+: .*)`)
	errorLine = regexp.MustCompile(`(?m)^ +\S+\.go:\d+: +(.*\S)`)
	noise     = regexp.MustCompile(`^\[rapid\] (draw|OK|trying|seed)|^logged: `)
)

// judge reads what a test binary wrote and how it ended.
func judge(text string, err error) outcome {
	o := outcome{tests: map[string]string{}, failed: err != nil, text: text}
	for _, m := range testLine.FindAllStringSubmatch(text, -1) {
		o.tests[m[2]] = m[1]
	}
	if !o.failed {
		return o
	}
	crash := crashLine.FindString(text)
	o.hung = strings.HasPrefix(crash, "panic: test timed out") || strings.Contains(err.Error(), "signal: killed")
	switch {
	case o.hung:
		o.how = "hangs"
	case strings.Contains(text, "WARNING: DATA RACE"):
		o.how = "data race"
	case crash != "":
		o.how = "panics: " + strings.TrimPrefix(crash, "panic: ")
	default:
		o.how = message(text)
	}
	if len(o.how) > 100 {
		o.how = o.how[:97] + "…"
	}
	return o
}

// message is the first thing that a failing test said, or the last line of all.
func message(text string) string {
	for _, m := range errorLine.FindAllStringSubmatch(text, -1) {
		if !noise.MatchString(m[1]) {
			return m[1]
		}
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for len(lines) > 1 && (lines[len(lines)-1] == "FAIL" || lines[len(lines)-1] == "PASS") {
		lines = lines[:len(lines)-1]
	}
	return strings.TrimSpace(lines[len(lines)-1])
}
