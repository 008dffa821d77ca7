package pgserver_test

import (
	"os"
	"testing"

	"github.com/everstep-go/everstep/internal/pgserver/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
