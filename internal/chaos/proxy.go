package chaos

import (
	"net"
	"sync"
)

// A Proxy forwards TCP connections to a database. It can go dark: then it takes nothing and drops
// nothing, it only stops forwarding, as a network does that lost its way.
type Proxy struct {
	listener net.Listener
	target   string

	mu     sync.Mutex // guards what follows
	light  *sync.Cond // when dark or closed changes
	dark   bool
	closed bool
	conns  map[net.Conn]bool
	wg     sync.WaitGroup
}

// NewProxy returns a proxy to a TCP address that listens on a free port.
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	p.light = sync.NewCond(&p.mu)
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() *net.TCPAddr { return p.listener.Addr().(*net.TCPAddr) }

// SetDark turns the light off or on.
func (p *Proxy) SetDark(dark bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dark = dark
	p.light.Broadcast()
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Close ends the proxy.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.light.Broadcast()
	p.mu.Unlock()
	p.listener.Close()
	p.Cut()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil || !p.pass() {
			return
		}
		p.wg.Go(func() { p.serve(c) })
	}
}

// pass waits until there is light. It reports false if the proxy is closed.
func (p *Proxy) pass() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.dark && !p.closed {
		p.light.Wait()
	}
	return !p.closed
}

// keep notes connections that Cut closes, unless it is too late for them.
func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
	return !p.closed
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.keep(client, server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.forward(server, client) })
	both.Go(func() { p.forward(client, server) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

// forward copies from one side to the other. The end of one direction is the end of both.
func (p *Proxy) forward(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !p.pass() {
			return
		}
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil {
			return
		}
	}
}
