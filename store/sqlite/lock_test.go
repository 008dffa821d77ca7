package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/checkpoint"
	"github.com/everstep-go/everstep/store"
)

// The variables that make the test binary another process: one that has the database open, or
// one that looks into its file.
const (
	childPath    = "EVERSTEP_SQLITE_CHILD"
	onlookerPath = "EVERSTEP_SQLITE_ONLOOKER"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		os.Exit(child(path))
	}
	if path := os.Getenv(onlookerPath); path != "" {
		os.Exit(lookOn(path))
	}
	os.Exit(m.Run())
}

// lookOn prints how many sessions a database has, or why it could not be read.
func lookOn(path string) int {
	c, err := connect(path, "mode=ro&_busy_timeout=1")
	if err == nil {
		defer c.close()
		var n int64
		err = c.each(context.Background(), `SELECT count(*) FROM sessions`, func(v row) error {
			n = v.int(0)
			return nil
		})
		if err == nil {
			fmt.Println(n)
			return 0
		}
	}
	fmt.Println(err)
	return 1
}

// child begins a run with a long lease, says so, and lives until it is killed.
func child(path string) int {
	s, err := Open(path, nil)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, err = s.Begin(context.Background(), &store.Begin{
		Fence: store.Fence{Tenant: "t", Run: uuid.New(), Owner: uuid.New(), Epoch: 1}, Session: uuid.New(), Graph: "agent",
		Params: []byte("params"), Steps: []store.Step{at("entrypoint", checkpoint.Input, 1)}, Status: checkpoint.Running, Lease: time.Hour,
	})
	fmt.Println("begun", err)
	_, _ = os.Stdin.Read(make([]byte, 1)) // nobody writes to it
	return 0
}

// startChild starts a process that has the database open and a run in it.
func startChild(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childPath+"="+path)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "begun <nil>\n", line)
	return cmd
}

func TestAnotherProcessGetsErrLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "everstep.db")
	startChild(t, path)
	_, err := Open(path, nil)
	require.ErrorIs(t, err, store.ErrLocked)
	require.ErrorIs(t, Migrate(path), store.ErrLocked)
}

func TestRunsOfAKilledProcessCanBeClaimedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "everstep.db")
	cmd := startChild(t, path)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed, and says so

	s, err := Open(path, nil)
	require.NoError(t, err)
	defer s.Close()
	owner := uuid.New()
	runs, err := s.Claim(t.Context(), &store.Claim{Owner: owner, Graphs: []string{"agent"}, Lease: time.Minute, Limit: 10})
	require.NoError(t, err)
	require.Len(t, runs, 1)
	assert.Equal(t, owner, runs[0].Owner)
	assert.Equal(t, int64(2), runs[0].Epoch)
	assert.Equal(t, "params", string(runs[0].Params))
	p, err := s.Load(t.Context(), &store.Load{Tenant: "t", Run: runs[0].ID})
	require.NoError(t, err)
	assert.Len(t, p.Messages, 1, "what the dead process was told is written")
}

func TestOtherProgramsCanReadAFileThatIsNotExclusive(t *testing.T) {
	for exclusive, want := range map[bool]string{false: "1\n", true: ": database is locked\n"} {
		s := open(t, &Options{Exclusive: exclusive})
		_, err := s.CreateSession(t.Context(), "t", uuid.New())
		require.NoError(t, err)
		look := func() string {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), onlookerPath+"="+s.path)
			out, _ := cmd.Output() // what went wrong is in what it printed
			return string(out)
		}
		require.Contains(t, look(), want, "exclusive: %v", exclusive)
		require.NoError(t, s.Close())
		require.Equal(t, "1\n", look(), "closed")
	}
}

func TestTheLockIsThatOfTheFileHoweverItIsCalled(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "everstep.db")
	s, err := Open(path, nil)
	require.NoError(t, err)
	link := filepath.Join(dir, "link.db")
	require.NoError(t, os.Symlink(path, link))
	t.Chdir(dir)
	for _, name := range []string{path, "everstep.db", link} {
		_, err = Open(name, nil)
		require.ErrorIs(t, err, store.ErrLocked, name)
	}
	require.NoError(t, s.Close())
	s, err = Open(link, nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func TestAFailedOpenGivesUpTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "everstep.db")
	_, err := Open(path, &Options{ManualMigrate: true})
	require.Error(t, err)
	s, err := Open(path, nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}
