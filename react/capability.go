package react

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/everstep-go/everstep/internal/wire"
)

// CapabilityPolicy says whether runs may change the capabilities of an agent. Empty is [PolicyLocked].
type CapabilityPolicy string

// The policies.
const (
	PolicyLocked     CapabilityPolicy = "locked"     // an override other than inherit is refused
	PolicyExtensible CapabilityPolicy = "extensible" // overrides apply
)

func (p CapabilityPolicy) check() error {
	switch p {
	case "", PolicyLocked, PolicyExtensible:
		return nil
	}
	return fmt.Errorf("react: unknown capability policy %q; it is %s or %s", p, PolicyLocked, PolicyExtensible)
}

// permits reports whether an override may be used at all.
func (p CapabilityPolicy) permits(o *CapabilityOverride) bool {
	return p == PolicyExtensible || o == nil || o.Strategy == OverrideInherit
}

// The strategies of a [CapabilityOverride].
const (
	OverrideInherit = "inherit" // the agent's capabilities
	OverrideExtend  = "extend"  // those and the given ones
	OverrideReplace = "replace" // only the given ones
)

// CapabilityOverride is how a run changes the capabilities that its agent has been granted.
type CapabilityOverride struct {
	Strategy     string // one of the Override constants
	Capabilities []string
}

// MarshalJSON prints the capabilities only with the strategies that use them.
func (o CapabilityOverride) MarshalJSON() ([]byte, error) {
	if o.Strategy == OverrideInherit {
		return []byte(`{"strategy":"inherit"}`), nil
	}
	if o.Capabilities == nil {
		o.Capabilities = []string{}
	}
	return wire.Marshal(struct {
		Strategy     string   `json:"strategy"`
		Capabilities []string `json:"capabilities"`
	}{o.Strategy, o.Capabilities})
}

// UnmarshalJSON refuses unknown strategies, and extend and replace without capabilities.
func (o *CapabilityOverride) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var members map[string]json.RawMessage // not a struct: encoding/json would take "STRATEGY" for strategy
	if err := json.Unmarshal(data, &members); err != nil {
		return errors.New("react: capability override: it is an object")
	}
	var read CapabilityOverride
	strategy, ok := members["strategy"]
	if !ok {
		return errors.New(`react: capability override: "strategy" is missing`)
	}
	if strategy[0] != '"' || json.Unmarshal(strategy, &read.Strategy) != nil {
		return errors.New(`react: capability override: "strategy" is a string`)
	}
	switch read.Strategy {
	case OverrideInherit:
	case OverrideExtend, OverrideReplace:
		var list []*string // of pointers, to see a null
		raw, ok := members["capabilities"]
		if !ok {
			return fmt.Errorf(`react: capability override: %s needs "capabilities"`, read.Strategy)
		}
		if json.Unmarshal(raw, &list) != nil || list == nil || slices.Contains(list, nil) {
			return errors.New(`react: capability override: "capabilities" is an array of strings`)
		}
		read.Capabilities = make([]string, len(list))
		for i, s := range list {
			read.Capabilities[i] = *s
		}
	default:
		return fmt.Errorf("react: capability override: unknown strategy %q; it is inherit, extend or replace", read.Strategy)
	}
	*o = read
	return nil
}

// granted returns the capabilities of a run of an agent that has those of base. An override that the policy does
// not permit is refused when the run starts; here it changes nothing.
func granted(policy CapabilityPolicy, base []string, override *CapabilityOverride) []string {
	if override == nil || !policy.permits(override) {
		return base
	}
	switch override.Strategy {
	case OverrideExtend:
		list := slices.Clone(base)
		for _, c := range override.Capabilities {
			if !slices.Contains(list, c) {
				list = append(list, c)
			}
		}
		return list
	case OverrideReplace:
		return override.Capabilities
	default:
		return base
	}
}

// allowed reports whether the granted capabilities cover every required one. A capability covers itself and what
// is below it: math covers math::add, but not maths.
func allowed(required, granted []string) bool {
	for _, r := range required {
		covers := func(g string) bool { return r == g || strings.HasPrefix(r, g+"::") }
		if !slices.ContainsFunc(granted, covers) {
			return false
		}
	}
	return true
}
