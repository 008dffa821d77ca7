// A2a is two agents in two processes: a boss, who has work done, and a worker, who does it. They speak A2A. The program
// starts both, kills each of them in the middle and starts it again, and shows what was done: one task, and each of its
// steps once.
//
//	go run ./examples/a2a
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
)

var (
	serve = flag.String("serve", "", "be the agent of that `name`, boss or worker, in the current folder")
	addr  = flag.String("addr", "", "the address of the worker")
)

func main() {
	flag.Parse()
	ctx := context.Background()
	switch *serve {
	case "worker":
		check(worker(ctx, *addr))
		return
	case "boss":
		check(boss(ctx, "http://"+*addr))
		return
	}
	dir, err := os.MkdirTemp("", "a2a")
	check(err)
	defer os.RemoveAll(dir)
	*addr = freeAddress()

	w, b := launch(dir, "worker"), launch(dir, "boss")
	awaitSteps(dir, 1)
	fmt.Println("the worker is killed")
	w.kill()
	w = launch(dir, "worker")
	awaitSteps(dir, 2)
	fmt.Println("the boss is killed")
	b.kill()
	b = launch(dir, "boss")
	answer, err := io.ReadAll(b.out)
	check(err)
	check(b.cmd.Wait())
	fmt.Print(string(answer))
	fmt.Println("tasks of the worker:", tasks(ctx))
	fmt.Println("steps, and how often each was done:", strings.Join(done(dir), ", "))
	w.kill()
}

// process is an agent as the program sees it.
type process struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

// launch starts this program as an agent and returns when it is there.
func launch(dir, name string) *process {
	program, err := os.Executable()
	check(err)
	p := &process{cmd: exec.Command(program, "-serve", name, "-addr", *addr)}
	p.cmd.Dir, p.cmd.Stderr = dir, os.Stderr
	out, err := p.cmd.StdoutPipe()
	check(err)
	check(p.cmd.Start())
	p.out = bufio.NewReader(out)
	_, err = p.out.ReadString('\n')
	check(err)
	return p
}

func (p *process) kill() {
	check(p.cmd.Process.Kill())
	_ = p.cmd.Wait() // which says that it was killed
}

// awaitSteps waits until the worker has done that many steps.
func awaitSteps(dir string, n int) {
	for len(done(dir)) < n {
		time.Sleep(10 * time.Millisecond)
	}
}

// done returns the steps that the worker has done, each with the number of times.
func done(dir string) (steps []string) {
	files, err := filepath.Glob(filepath.Join(dir, "step *"))
	check(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(err)
		steps = append(steps, fmt.Sprintf("%s: %d", filepath.Base(file), strings.Count(string(text), "\n")))
	}
	return steps
}

// tasks asks the worker how many tasks it has.
func tasks(ctx context.Context) int {
	card, err := agentcard.DefaultResolver.Resolve(ctx, "http://"+*addr)
	check(err)
	client, err := a2aclient.NewFromCard(ctx, card)
	check(err)
	list, err := client.ListTasks(ctx, &sdk.ListTasksRequest{})
	check(err)
	return list.TotalSize
}

func freeAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	defer l.Close()
	return l.Addr().String()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
