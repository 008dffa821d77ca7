package mcp

import "runtime/debug"

// version returns the version of this module in the program, for the other side to see.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/everstep-go/everstep/tool/mcp" {
				return m.Version
			}
		}
	}
	return "devel"
}
