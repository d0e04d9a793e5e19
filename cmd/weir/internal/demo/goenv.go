package demo

import (
	"os/exec"
	"strings"
)

// goEnv asks the go command where it lives.
func goEnv() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	return strings.TrimSpace(string(out)), err
}
