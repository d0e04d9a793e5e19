package main

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

// newRoot returns the command weir with its subcommands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "weir",
		Short:         "Move records over many credit-controlled channels, as Apache Flink does",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newConform())
	root.AddCommand(newSend(), newRecv(), newCoordinate())
	root.AddCommand(newDemo()...)
	root.AddCommand(newBench()...)
	root.AddCommand(newInspect())
	return root
}

// version returns the module's version and, where the build recorded it, the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" {
		v = "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v += " " + s.Value
		}
	}
	return v + " " + info.GoVersion
}
