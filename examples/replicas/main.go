// Replicas is three servers on one PostgreSQL: they share the work, and whatever happens to one of them, the others
// finish it. It starts all of that itself, kills one server and freezes another while runs go on, and prints where each
// step of each run was done.
//
//	go run ./examples/replicas
//
// It needs the programs of a PostgreSQL server (Debian: postgresql), not a running one.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/everstep-go/everstep/event"
	"github.com/everstep-go/everstep/httpapi/httpapitest"
	"github.com/everstep-go/everstep/internal/pgserver"
)

var (
	serve = flag.String("serve", "", "be the replica of that `name`")
	dsn   = flag.String("dsn", "", "the replica's database")
)

// lease is short, so that the example does not take long. The default is 15 s.
const lease = 3 * time.Second

// runs is how many there are on each replica.
const runs = 3

func main() {
	flag.Parse()
	ctx := context.Background()
	if *serve != "" {
		check(replica(ctx, *serve, *dsn))
		return
	}
	database, err := pgserver.Start(ctx, nil)
	if errors.Is(err, pgserver.ErrMissing) {
		log.Fatal("PostgreSQL is not installed: ", err)
	}
	check(err)
	defer database.Stop()
	check(database.CreateDatabase(ctx, "replicas"))
	var all []*process
	for _, name := range []string{"red", "green", "blue"} {
		all = append(all, launch(name, database.DSN("replicas")))
	}
	red, green, blue := all[0], all[1], all[2]

	var begun []run
	for range runs {
		for _, p := range all {
			begun = append(begun, p.start())
		}
	}
	blue.awaitStep(begun[len(begun)-1])
	fmt.Println("red is killed, green is frozen")
	check(red.cmd.Process.Kill())
	check(green.cmd.Process.Signal(syscall.SIGSTOP))
	defer time.AfterFunc(2*lease, func() {
		fmt.Println("green is thawed")
		check(green.cmd.Process.Signal(syscall.SIGCONT))
	}).Stop()

	for i, r := range begun {
		where, status := blue.follow(r)
		fmt.Printf("run %d, begun on %-6s steps on %s: %s\n", i+1, r.on+":", strings.Join(where, ", "), status)
	}
	check(green.cmd.Process.Signal(syscall.SIGCONT))
	for _, p := range []*process{green, blue} {
		check(p.cmd.Process.Signal(syscall.SIGTERM))
		check(p.cmd.Wait())
	}
}

// process is a replica as the others see it.
type process struct {
	name, url string
	cmd       *exec.Cmd
}

// launch starts this program as a replica and returns when it listens.
func launch(name, dsn string) *process {
	program, err := os.Executable()
	check(err)
	p := &process{name: name, cmd: exec.Command(program, "-serve", name, "-dsn", dsn)}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	check(err)
	check(p.cmd.Start())
	p.url, err = bufio.NewReader(out).ReadString('\n')
	check(err)
	p.url = strings.TrimSpace(p.url)
	return p
}

// run is one that was accepted.
type run struct {
	ID string `json:"run_id"`
	on string
}

// start begins a detached run.
func (p *process) start() (r run) {
	res, err := http.Post(p.url+"/v1/runs/start", "application/json", strings.NewReader(`{"messages":[{"role":"user","content":"Work!"}]}`))
	check(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	check(err)
	check(json.Unmarshal(text, &r))
	r.on = p.name
	return r
}

// awaitStep observes a run until its first step is done.
func (p *process) awaitStep(r run) {
	for e, err := range p.events(r) {
		check(err)
		if _, ok := e.Data.(event.ToolCallResult); ok {
			return
		}
	}
}

// events observes a run from its beginning.
func (p *process) events(r run) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		req, err := http.NewRequest("GET", p.url+"/v1/runs/"+r.ID+"/events", nil)
		check(err)
		req.Header.Set("Last-Event-ID", "0")
		res, err := http.DefaultClient.Do(req)
		check(err)
		defer res.Body.Close()
		httpapitest.Events(res.Body)(yield)
	}
}

// follow observes a run to its end, and returns on which replicas its steps were done.
func (p *process) follow(r run) (where []string, status string) {
	for e, err := range p.events(r) {
		check(err)
		switch d := e.Data.(type) {
		case event.ToolCallResult:
			where = append(where, name(d.Content))
		case event.MessagesSnapshot: // of a run that another replica took over: all that was done before
			where = done(d)
		case event.RunFinished:
			status = d.Status
		case event.RunError:
			status = d.Error
		}
	}
	return where, status
}

func listen() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	return l
}

func name(content json.RawMessage) string { return string(bytes.Trim(content, `"`)) }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
