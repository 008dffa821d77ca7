package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/big"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/everstep-go/everstep/graph"
	"github.com/everstep-go/everstep/react"
	"github.com/everstep-go/everstep/state"
)

// tools returns the tools of the agent. Those of a ledger write to that file.
func tools(file string) []react.Tool {
	write := ledger{file}.write
	return []react.Tool{
		react.NewTool("add", "Adds two numbers.", add, &react.ToolOptions{Capabilities: []string{"math::add"}}),
		react.NewTool("echo", "Says the text again.", echo),
		react.NewTool("weather", "Current weather in a city.", weather),
		react.NewTool("sleep", "Waits.", sleep),
		react.NewTool("fail", "Fails with the message.", fail),
		react.NewTool("panic", "Panics with the message.", panics),
		react.NewTool("remember", "Keeps a value in the context.", remember),
		react.NewTool("patch", "Returns the operations as its state update.", patch),
		react.NewTool("progress", "Tells about its progress.", progress),
		react.NewTool("ledger", "Writes a line into the ledger, then waits.", write),
		react.NewTool("ledger_once", "Writes a line into the ledger at most once, then waits.", write, &react.ToolOptions{AtMostOnce: true}),
		react.NewTool("ask", "Asks the user.", ask),
		react.NewTool("approve", "Does something once a human agrees.", approve, &react.ToolOptions{Approval: true}),
		react.NewTool("vault", "Opens the vault.", vault, &react.ToolOptions{Capabilities: []string{"vault::read"}}),
	}
}

type addition struct {
	A json.Number `json:"a"`
	B json.Number `json:"b"`
}

// add is exact, for integers of any size and for decimals such as 0.1. Numbers with an exponent it adds as floats:
// written out, a few bytes of them can be more digits than there is memory.
func add(_ context.Context, in addition) (json.Number, error) {
	if strings.ContainsAny(string(in.A+in.B), "eE") {
		a, errA := in.A.Float64()
		b, errB := in.B.Float64()
		sum, err := json.Marshal(a + b)
		return json.Number(sum), errors.Join(errA, errB, err)
	}
	sum, okA := new(big.Rat).SetString(string(in.A))
	b, okB := new(big.Rat).SetString(string(in.B))
	if !okA || !okB {
		return "", &react.ArgumentError{Reason: "a and b must be numbers"}
	}
	places := max(decimals(in.A), decimals(in.B))
	text := sum.Add(sum, b).FloatString(places)
	if places > 0 {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return json.Number(text), nil
}

func decimals(n json.Number) int {
	_, fraction, _ := strings.Cut(string(n), ".")
	return len(fraction)
}

type speech struct {
	Text string `json:"text"`
}

func echo(_ context.Context, in speech) (string, error) { return in.Text, nil }

type place struct {
	City string `json:"city" jsonschema:"city name, such as Oslo"`
}

type report struct {
	City    string `json:"city"`
	Celsius int    `json:"celsius"`
	Sky     string `json:"sky"`
}

// weather never changes in a city.
func weather(_ context.Context, in place) (report, error) {
	h := fnv.New32a()
	h.Write([]byte(in.City))
	n := h.Sum32()
	return report{in.City, int(n%41) - 10, []string{"sun", "clouds", "rain", "snow", "fog"}[n/41%5]}, nil
}

type pause struct {
	MS uint32 `json:"ms" jsonschema:"milliseconds"`
}

func sleep(ctx context.Context, in pause) (string, error) {
	return fmt.Sprintf("slept %d ms", in.MS), wait(ctx, in.MS)
}

func wait(ctx context.Context, ms uint32) error {
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

type notice struct {
	Message string `json:"message"`
}

func fail(_ context.Context, in notice) (string, error) { return "", errors.New(in.Message) }

func panics(_ context.Context, in notice) (string, error) { panic(in.Message) }

type fact struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value" jsonschema:"any JSON"`
}

func remember(ctx context.Context, in fact) (string, error) {
	return "ok", react.UpdateContext(ctx, state.Add(state.Pointer(in.Key), in.Value))
}

type update struct {
	Ops json.RawMessage `json:"ops" jsonschema:"the state update, right or wrong"`
}

func patch(_ context.Context, in update) (react.ToolResult, error) {
	return react.ToolResult{Output: json.RawMessage(`"patched"`), StateUpdate: in.Ops}, nil
}

type work struct {
	Steps uint32 `json:"steps"`
}

func progress(ctx context.Context, in work) (string, error) {
	for done := uint64(1); done <= uint64(in.Steps) && ctx.Err() == nil; done++ {
		n := json.RawMessage(strconv.FormatUint(done, 10))
		react.EmitActivity(ctx, "progress", state.Patch{state.Replace("/done", n)})
	}
	return "done", context.Cause(ctx)
}

type entry struct {
	Line string `json:"line"`
	MS   uint32 `json:"ms" jsonschema:"milliseconds to wait after it is written"`
}

// A ledger is a file that shows what was really done: lines, each with the idempotency key of the call.
type ledger struct{ path string }

func (l ledger) write(ctx context.Context, in entry) (string, error) {
	if l.path == "" {
		return "", errors.New("there is no ledger: start the server with -ledger FILE")
	}
	if err := l.append(in.Line + "\t" + graph.IdempotencyKey(ctx) + "\n"); err != nil {
		return "", err
	}
	return in.Line, wait(ctx, in.MS)
}

// append writes text in one go, for other calls write at the same time, and returns when it is on the disk.
func (l ledger) append(text string) error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

type inquiry struct {
	Question string `json:"question"`
}

func ask(ctx context.Context, in inquiry) (json.RawMessage, error) {
	return graph.Interrupt[json.RawMessage](ctx, "", in)
}

type deed struct {
	Action string `json:"action"`
}

func approve(_ context.Context, in deed) (string, error) { return "did " + in.Action, nil }

func vault(context.Context, struct{}) (string, error) { return "42", nil }
