package react

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/message"
	"github.com/everstep-go/everstep/store"
)

// Config is what an [Agent] is made of. Name and Model are required; zero fields mean the
// default.
type Config struct {
	// Name of the agent. It is data: runs are stored under it and adopted by it, and assistant
	// messages carry it.
	Name        string
	Description string

	// Model answers. ModelName is what it is asked for by default; Provider is the name under
	// which a client may ask for it, besides those of Providers.
	Model     Model
	ModelName string
	Provider  string
	Providers map[string]Model
	// AllowModel refuses models that a client may not choose. Default: all are allowed.
	AllowModel func(provider, model string) bool
	// Params tune the model; what a client overrides wins.
	Params message.Params
	// ModelTimeout is how long a reply may take to begin, ModelIdle how long it may pause once
	// it did, Retry how often it is asked for again. Default: no limit, no retry.
	ModelTimeout time.Duration
	ModelIdle    time.Duration
	Retry        *RetryPolicy

	// Output is what answers look like. Default: free text. One that does not fit is asked for
	// once more; then the run fails, code "model_error".
	Output *Output

	// Prompt renders the system prompt before each model call. Default: none.
	Prompt Prompt
	// Skills are named in the prompt.
	Skills []Skill
	// Tools that the agent executes itself.
	Tools []Tool
	// Capabilities of the agent, and whether clients may change them. Default: none, [PolicyLocked].
	Capabilities     []string
	CapabilityPolicy CapabilityPolicy

	// Compaction shortens what the model is sent when it is longer than Budget allows.
	// Default: nothing is left out.
	Compaction Compaction
	Budget     Budget
	Tokens     TokenCounter // default: ApproximateTokens

	// ToolConcurrency is how many tools of a reply run at once. Default: 8. 1: one after the other.
	ToolConcurrency int
	// MaxToolCalls is how many calls a reply may hold. Default: 64.
	MaxToolCalls int
	// MaxToolOutput is how many bytes of a tool's output are kept. Default: 1 MiB.
	MaxToolOutput int
	// MaxSteps is how many nodes a run may execute. Default: 100.
	MaxSteps int

	// Store keeps the sessions. Nil keeps nothing: each run is on its own.
	Store store.Store
	// OnBusy says what to do with a run whose session has an active one. Default: graph.Reject.
	OnBusy graph.OnBusy
	// Bus, Observer, Logger, Lease and Heartbeat are as in graph.RunnerOptions.
	Bus              event.Bus
	Observer         graph.Observer
	Logger           *slog.Logger
	Lease, Heartbeat time.Duration
	// WaitLimit is how long a run waits for a busy session. Default: 5 minutes.
	WaitLimit time.Duration
	// MaxRuns is how many runs this process executes at once, AcceptOnly leaves all of them to
	// other processes. See graph.RunnerOptions.
	MaxRuns    int
	AcceptOnly bool
}

// New makes an agent. It reports everything that is wrong with the configuration at once. End
// an agent with [Agent.Shutdown].
func New(c Config) (*Agent, error) {
	c.CapabilityPolicy = cmp.Or(c.CapabilityPolicy, PolicyLocked)
	c.ToolConcurrency = cmp.Or(c.ToolConcurrency, 8)
	c.MaxToolCalls = cmp.Or(c.MaxToolCalls, 64)
	c.MaxToolOutput = cmp.Or(c.MaxToolOutput, 1<<20)
	if c.Tokens == nil {
		c.Tokens = CounterFunc(ApproximateTokens)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	a := &Agent{config: c, tools: make(map[string]*registered, len(c.Tools))}
	if err := errors.Join(a.validate(), a.register()); err != nil {
		return nil, err
	}
	g, err := graph.New(c.Name,
		graph.Node("entrypoint", &entrypoint{agent: a}, &graph.NodeOptions{Repeatable: true}),
		graph.Node("call_model", &callModel{agent: a}),
		graph.Node("call_tools", &callTools{agent: a}, &graph.NodeOptions{Repeatable: true, Settles: true}),
		graph.Node("exit", &exit{}, &graph.NodeOptions{Repeatable: true}),
	)
	if err != nil {
		return nil, err
	}
	a.runner, err = graph.NewRunner(g, c.Store, &graph.RunnerOptions[State]{
		Codec: codec{a}, StartAt: a.startAt, Snapshot: snapshot,
		Bus: c.Bus, Observer: c.Observer, Logger: c.Logger,
		OnBusy: c.OnBusy, WaitLimit: c.WaitLimit, MaxSteps: c.MaxSteps, Lease: c.Lease, Heartbeat: c.Heartbeat,
		MaxRuns: c.MaxRuns, AcceptOnly: c.AcceptOnly,
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (a *Agent) validate() error {
	c := a.config
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("react: "+format, args...)) }
	if c.Name == "" {
		fault("Config.Name is empty: sessions are stored under it")
	}
	if c.Model == nil {
		fault("Config.Model is nil: an agent needs a model")
	}
	if _, ok := c.Providers[c.Provider]; ok && c.Provider != "" {
		fault("Config.Providers has %q, which is the name of Config.Model", c.Provider)
	}
	faults = append(faults, c.CapabilityPolicy.check())
	if c.ToolConcurrency < 0 || c.MaxToolCalls < 0 || c.MaxToolOutput < 0 || c.ModelTimeout < 0 || c.ModelIdle < 0 {
		fault("Config: limits must not be negative")
	}
	if r := c.Retry; r != nil && (r.MaxAttempts < 1 || r.InitialBackoff < 0 || r.MaxBackoff < 0) {
		fault("Config.Retry: MaxAttempts must be at least 1 and backoffs not negative")
	}
	if c.Output != nil {
		var err error
		if a.output, err = c.Output.validator(); err != nil {
			fault("Config.Output: %w", err)
		}
	}
	if p, ok := c.Prompt.(interface{ check() error }); ok {
		if err := p.check(); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// registered is a tool as the agent holds it.
type registered struct {
	tool      Tool
	spec      ToolSpec
	arguments *validator
}

// register reads the tools' specs once: they do not change.
func (a *Agent) register() error {
	var faults []error
	for _, t := range a.config.Tools {
		if t == nil {
			faults = append(faults, errors.New("react: Config.Tools holds a nil"))
			continue
		}
		if err := checkTool(t); err != nil {
			faults = append(faults, err)
			continue
		}
		r := &registered{tool: t, spec: t.Spec()}
		if _, ok := a.tools[r.spec.Name]; ok {
			faults = append(faults, fmt.Errorf("react: two tools are named %q", r.spec.Name))
			continue
		}
		r.arguments, _ = validatorOf(t) // checked above
		a.tools[r.spec.Name] = r
		a.order = append(a.order, r)
	}
	return errors.Join(faults...)
}
