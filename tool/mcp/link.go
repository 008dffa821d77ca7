package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A link is one connection to a server, with the calls that are under way on it.
type link struct {
	session *sdk.ClientSession
	listed  []*sdk.Tool // when it was made
	kill    func()      // ends the process of the server at once
	ended   chan struct{}

	mu      sync.Mutex // guards what follows
	broken  bool       // a call found that it does not work
	calls   map[string]*call
	asking  int           // questions whose call is not known yet
	alone   int           // calls that are, or want to be, the only one
	changed chan struct{} // closed and replaced when one of these changes
}

// dial makes a connection.
func (c *Client) dial(ctx context.Context) (*link, error) {
	// The connection outlives whoever needs it first.
	life, kill := context.WithCancel(context.Background())
	connecting, cancel := context.WithTimeout(life, c.config.ConnectTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	// A process that does not even begin to talk is not given time to end well.
	keep := context.AfterFunc(connecting, kill)

	l := &link{kill: kill, ended: make(chan struct{}), calls: map[string]*call{}, changed: make(chan struct{})}
	transport, err := c.config.transport(life)
	if err == nil {
		err = l.connect(connecting, transport)
	}
	if err == nil && keep() {
		return l, nil
	}
	if err == nil { // too late
		err = l.close()
	}
	kill()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(connecting.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("not connected within %v", c.config.ConnectTimeout)
	}
	return nil, fmt.Errorf("connecting: %w", err)
}

func (l *link) connect(ctx context.Context, transport sdk.Transport) (err error) {
	client := sdk.NewClient(&sdk.Implementation{Name: "everstep", Version: version()}, &sdk.ClientOptions{
		Capabilities:                &sdk.ClientCapabilities{}, // without roots, which is the default
		ElicitationHandler:          l.elicit,
		ProgressNotificationHandler: l.progress,
	})
	if l.session, err = client.Connect(ctx, transport, nil); err != nil {
		return err
	}
	go func() { // until close
		_ = l.session.Wait()
		close(l.ended)
	}()
	// Also after the first time: the SDK takes from the list which arguments a server wants as headers.
	if l.listed, err = l.list(ctx); err != nil {
		return errors.Join(err, l.close())
	}
	return nil
}

func (l *link) list(ctx context.Context) (tools []*sdk.Tool, err error) {
	if c := l.session.InitializeResult().Capabilities; c == nil || c.Tools == nil {
		return nil, nil
	}
	for t, err := range l.session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	return tools, nil
}

// close ends the connection. Calls that are under way fail with [ErrClosed].
func (l *link) close() error {
	l.mu.Lock()
	l.broken = true
	for _, c := range l.calls {
		c.cancel(ErrClosed)
	}
	l.change()
	l.mu.Unlock()
	err := l.session.Close()
	<-l.ended
	l.kill()
	return err
}

// retire ends a connection that is lost to new calls, when those that it may still have an answer for are through,
// or at the end of ctx.
func (l *link) retire(ctx context.Context) {
	l.mu.Lock()
	for len(l.calls) > 0 && l.wait(ctx) == nil {
	}
	l.mu.Unlock()
	l.kill()
	_ = l.close()
}

// lost reports whether the connection must be made again.
func (l *link) lost() bool {
	select {
	case <-l.ended:
		return true
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// change tells all who wait in wait that something changed. It is called under the lock.
func (l *link) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// wait waits for a change, without the lock that it is called under.
func (l *link) wait(ctx context.Context) error {
	changed := l.changed
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-changed:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

var (
	// errAlone ends calls that are to be made again, one at a time.
	errAlone = errors.New("the call must be made alone")
	// errLost is what goes wrong with a connection.
	errLost = errors.New("the connection was lost")
	// errUnsent ends calls that found no connection.
	errUnsent = errors.New("the connection was lost before the call")
	// errRejected is how the SDK says that a message did not get through.
	errRejected = &jsonrpc.Error{Code: -32005}
)

// do makes a call and waits for its result. The error is an errLost or errUnsent if the connection, not the
// server, is to blame, or errAlone.
func (l *link) do(ctx context.Context, params *sdk.CallToolParams, alone bool) (*sdk.CallToolResult, error) {
	c := newCall(ctx)
	defer c.cancel(nil)
	token := uuid.NewString()
	params.SetProgressToken(token)
	if err := l.begin(ctx, token, c, alone); err != nil {
		return nil, err
	}
	res, err := l.session.CallTool(context.WithValue(c.ctx, callKey{}, c), params)
	l.end(token, alone)
	if asked := c.end(); asked != nil {
		return nil, asked
	}
	if err == nil {
		return res, nil
	}
	if cause := context.Cause(c.ctx); cause != nil {
		return nil, cause
	}
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok && !errors.Is(err, errRejected) {
		return nil, errors.New(rpc.Message)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = true
	l.change()
	return nil, fmt.Errorf("%w: %w", errLost, err)
}

// begin adds a call to those that are under way, when there is place for it.
func (l *link) begin(ctx context.Context, token string, c *call, alone bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if alone {
		l.alone++
	}
	for !l.broken && (l.asking > 0 || alone && len(l.calls) > 0 || !alone && l.alone > 0) {
		if err := l.wait(ctx); err != nil {
			if alone {
				l.alone--
				l.change()
			}
			return context.Cause(ctx)
		}
	}
	if l.broken {
		if alone {
			l.alone--
		}
		return errUnsent
	}
	l.calls[token] = c
	return nil
}

func (l *link) end(token string, alone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, token)
	if alone {
		l.alone--
	}
	l.change()
}

// progress hands on what the server tells about a call. What it tells of a call that has ended is late.
func (l *link) progress(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
	token, _ := req.Params.ProgressToken.(string)
	l.mu.Lock()
	c := l.calls[token]
	l.mu.Unlock()
	if c != nil {
		c.progress(req.Params)
	}
}

// elicit hands on what the server asks.
func (l *link) elicit(ctx context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		var err error
		if c, err = l.asker(ctx); err != nil {
			return nil, err
		}
	}
	return c.ask(req.Params)
}

// asker finds out in which call a question was asked. Before the protocol of 2026-07-28 servers did not say,
// but it is clear as soon as there is only one call. Others are waited for. If those ask too, none of them will
// end, and all are made again, one after the other.
func (l *link) asker(ctx context.Context) (*call, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking++
	defer func() {
		l.asking--
		l.change()
	}()
	l.change()
	for len(l.calls) > 1 {
		if l.asking >= len(l.calls) {
			for _, c := range l.calls {
				c.cancel(errAlone)
			}
			clear(l.calls) // they have no more say in what is asked
			return nil, errAlone
		}
		if l.broken {
			return nil, errLost
		}
		if err := l.wait(ctx); err != nil {
			return nil, err
		}
	}
	for _, c := range l.calls {
		return c, nil
	}
	return nil, errors.New("no call is under way")
}
