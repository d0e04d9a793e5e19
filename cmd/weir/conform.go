package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirflow/weir/internal/conform"
)

// newConform returns the command that checks the library against files of golden data.
func newConform() *cobra.Command {
	return &cobra.Command{
		Use:   "conform FILE...",
		Short: "Check the library against vectors, traces and captured sessions of Flink",
		Long: "Check the library against golden data: vectors (.jsonl), traces (.txt) and captured sessions (.json, with their\n" +
			".bin files beside them). It prints each failing test and a line of counts for each file, and fails if any test failed.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, paths []string) error {
			out := cmd.OutOrStdout()
			var passed, failed int
			for _, path := range paths {
				p, f, err := conform.Run(path, out)
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				fmt.Fprintf(out, "%s: %d passed, %d failed\n", path, p, f)
				passed, failed = passed+p, failed+f
			}
			fmt.Fprintf(out, "%d passed, %d failed\n", passed, failed)
			switch {
			case failed > 0:
				return fmt.Errorf("%d of %d tests failed", failed, passed+failed)
			case passed == 0:
				return errors.New("the files hold no test")
			}
			return nil
		},
	}
}
