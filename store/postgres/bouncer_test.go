package postgres

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/internal/pgserver"
	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
)

// bouncer starts PgBouncer in transaction mode before a new database of a server, and returns the ways
// to it through PgBouncer and without.
func bouncer(t *testing.T, s *pgserver.Server) (pooled, direct string) {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("pgbouncer is not installed")
		}
		t.Skip("pgbouncer is not installed")
	}
	direct = pgtest.Database(t, s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	dir := t.TempDir()
	config := filepath.Join(dir, "pgbouncer.ini")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = %s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 10
`, strings.TrimSuffix(direct, " sslmode=disable"), port), 0o644))
	cmd := exec.Command(program, config)
	if os.Geteuid() == 0 { // it refuses root
		nobody, err := user.Lookup("nobody")
		require.NoError(t, err)
		uid, err := strconv.Atoi(nobody.Uid)
		require.NoError(t, err)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		cmd.Args[1] = "/dev/stdin" // the folder is not for others to read
		file, err := os.Open(config)
		require.NoError(t, err)
		defer file.Close()
		cmd.Stdin = file
	}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	address := fmt.Sprintf("127.0.0.1:%d", port)
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	return fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=any sslmode=disable", port), direct
}
