package storetest

import (
	"embed"
	"fmt"
	"math/rand/v2"
	"path"
	"testing"

	"github.com/stretchr/testify/require"
)

// Fuzz is the fuzz target of a driver. Each input is a tape that drives calls of three owners and a
// clock; the answer to each call, and what the store shows after it, must be that of a small
// model in plain Go. A driver's target is one line:
//
//	func FuzzStore(f *testing.F) { storetest.Fuzz(f, harness) }
//
// A store is opened for each tape, and closed when its test ends.
func Fuzz(f *testing.F, h Harness) {
	for _, t := range tapes(f) {
		f.Add(t)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) { play(t, h, bytes) })
}

// RunTapes plays the tapes that reach everything, and n tapes made of random numbers from the
// given seed, which a failure prints with the tape's number. It is [Fuzz] for every test run.
func RunTapes(t *testing.T, h Harness, seed uint64, n int) {
	for i, bytes := range tapes(t) {
		t.Run(fmt.Sprint("kept/", i), func(t *testing.T) { play(t, h, bytes) })
	}
	for i := range n {
		t.Run(fmt.Sprintf("seed=%d/%d", seed, i), func(t *testing.T) { play(t, h, randomTape(seed, uint64(i))) })
	}
}

// randomTape returns one of the tapes of a seed: 20 to 100 calls.
func randomTape(seed, i uint64) []byte {
	r := rand.New(rand.NewPCG(seed, i))
	bytes := make([]byte, 100+r.IntN(400))
	for i := range bytes {
		bytes[i] = byte(r.Uint32())
	}
	return bytes
}

//go:embed testdata/tapes
var keptTapes embed.FS

// tapes returns those that are kept: together they reach every call and every refusal.
func tapes(t testing.TB) [][]byte {
	const dir = "testdata/tapes"
	entries, err := keptTapes.ReadDir(dir)
	require.NoError(t, err)
	var all [][]byte
	for _, e := range entries {
		bytes, err := keptTapes.ReadFile(path.Join(dir, e.Name()))
		require.NoError(t, err)
		all = append(all, bytes)
	}
	return all
}
