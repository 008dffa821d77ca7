package postgres

import (
	"log/slog"
	"os"
	"testing"

	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// quiet is for servers that do not flush, as those of tests.
var quiet = slog.New(slog.DiscardHandler)
