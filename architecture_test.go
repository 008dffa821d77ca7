package everstep_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/everstep-go/everstep"

// levels are the packages from the ground up. A package may import those of lower levels.
var levels = [][]string{
	{"internal/wire", "internal/pgserver", "internal/redisserver", "internal/sse"},
	{"message", "state", "internal/pgserver/pgtest", "internal/redisserver/redistest"},
	{"event", "checkpoint", "internal/provider"},
	{"store", "event/eventtest", "internal/tale"},
	{"store/memory", "store/sqlite", "store/storetest", "graph"},
	{"graph/graphtest", "react"},
	{"react/reacttest", "internal/body", "reflex"},
	{"httpapi"},
	{"httpapi/httpapitest", "httpapi/agui"},
	{"httpapi/agui/aguitest"},
}

// A rule forbids imports, with the sentence that says why.
type rule struct {
	packages string // a pattern of path.Match on the package's path
	imports  string
	except   []string
	why      string
}

var rules = []rule{
	{"*", "testing", []string{"event/eventtest", "store/storetest", "graph/graphtest", "react/reacttest", "internal/pgserver/pgtest", "internal/redisserver/redistest"},
		"package testing, with its flags, must not get into the programs of our users: only packages named …test have it"},
	{"*", "github.com/stretchr/testify", []string{"event/eventtest", "store/storetest", "graph/graphtest", "react/reacttest"},
		"testify is for tests: only packages named …test may hand it on"},
	{"*", module + "/store/sqlite", nil,
		"a driver is chosen by programs and tests; a package that imports one chooses for everybody"},
	{"*", module + "/store/memory", nil,
		"a driver is chosen by programs and tests; a package that imports one chooses for everybody"},
	{"graph", module + "/react", nil,
		"a graph knows nothing of models, tools and prompts: a language model is one kind of node"},
	{"react", module + "/reflex", nil,
		"an agent works without a chat around it"},
	{"*", "net/http", []string{"httpapi", "httpapi/httpapitest", "httpapi/agui", "internal/body", "internal/sse", "internal/provider"},
		"the core is used without a network: HTTP is httpapi's and the adapters'"},
	{"*", module + "/internal/provider", nil,
		"it is for the modules of adapters, and brings HTTP with it"},
	{"*", "github.com/mattn/go-sqlite3", []string{"store/sqlite"},
		"only the driver knows its database"},
	{"*", "github.com/evanphx/json-patch/v5", []string{"state"},
		"JSON Patch has one home, with its limits and its errors"},
}

type listed struct {
	ImportPath   string
	Doc          string
	Imports      []string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Dir          string
}

// packages lists the packages of the module, without their tests.
func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Doc,Imports,GoFiles,TestGoFiles,XTestGoFiles,Dir", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else {
			require.NoError(t, err)
		}
		all = append(all, p)
	}
}

func short(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

func TestImportsOnlyPointDownTheLevels(t *testing.T) {
	t.Parallel()
	level := map[string]int{}
	for i, names := range levels {
		for _, name := range names {
			level[name] = i
		}
	}
	for _, p := range packages(t) {
		name := short(p.ImportPath)
		if name == "" {
			continue
		}
		here, ok := level[name]
		if !assert.True(t, ok, "package %s has no level: give it one", name) {
			continue
		}
		for _, path := range p.Imports {
			if strings.HasPrefix(path, module+"/") {
				assert.Less(t, level[short(path)], here, "%s imports %s, which is not below it", name, short(path))
			}
		}
	}
}

func TestNoPackageImportsWhatARuleForbids(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		name := short(p.ImportPath)
		for _, r := range rules {
			matches, err := filepath.Match(r.packages, name)
			require.NoError(t, err)
			if !matches && r.packages != "*" || slices.Contains(r.except, name) {
				continue
			}
			for _, path := range p.Imports {
				if path == r.imports || strings.HasPrefix(path, r.imports+"/") {
					t.Errorf("%s imports %s: %s", name, path, r.why)
				}
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsAndShowsIt(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		name := short(p.ImportPath)
		assert.NotEmpty(t, p.Doc, "package %s has no package comment", name)
		if name == "" || strings.HasPrefix(name, "internal/") {
			continue
		}
		assert.Contains(t, p.GoFiles, "doc.go", "the package comment of %s stands in doc.go", name)
		assert.True(t, hasExample(t, p), "package %s has no Example that go doc could show", name)
	}
}

func hasExample(t *testing.T, p listed) bool {
	t.Helper()
	for _, file := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, 0)
		require.NoError(t, err)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Example") {
				return true
			}
		}
	}
	return false
}

func TestOnlyTheDesignsDependenciesAreDirect(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{if not (or .Main .Indirect)}}{{.Path}}{{end}}", "all")
	cmd.Env = append(cmd.Environ(), "GOWORK=off") // of this module, not of the nested ones
	out, err := cmd.Output()
	require.NoError(t, err)
	allowed := []string{
		"github.com/evanphx/json-patch/v5", "github.com/google/jsonschema-go", "github.com/google/uuid",
		"github.com/mattn/go-sqlite3", "github.com/stretchr/testify",
	}
	for path := range strings.FieldsSeq(string(out)) {
		if !strings.HasPrefix(path, module) {
			assert.Contains(t, allowed, path, "anything heavier is a nested module with its own go.mod")
		}
	}
}

func TestNoTestSleepsOutsideOfABubble(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		names, err := filepath.Glob(filepath.Join(path, "*_test.go"))
		require.NoError(t, err)
		var files []*ast.File
		set := token.NewFileSet()
		for _, name := range names {
			f, err := parser.ParseFile(set, name, nil, 0)
			require.NoError(t, err)
			files = append(files, f)
		}
		wrappers := bubbleFuncs(files)
		for _, f := range files {
			for _, at := range sleeps(f, wrappers) {
				t.Errorf("%v sleeps: wait for what it waits for, or use testing/synctest", set.Position(at))
			}
		}
		return nil
	})
	require.NoError(t, err)
}

// bubbleFuncs returns the names of funcs that run what they are given in a synctest bubble.
func bubbleFuncs(files []*ast.File) []string {
	var names []string
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && calls(call, "synctest", "Test") {
					names = append(names, fn.Name.Name)
				}
				return true
			})
		}
	}
	return names
}

// sleeps returns where time.Sleep is called by funcs that have no bubble in them: in one, sleeping is
// waiting for the fake clock.
func sleeps(f *ast.File, wrappers []string) (at []token.Pos) {
	bubble := func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return false
		}
		id, local := call.Fun.(*ast.Ident)
		return calls(call, "synctest", "Test") || local && slices.Contains(wrappers, id.Name)
	}
	for _, d := range f.Decls {
		inBubble := false
		ast.Inspect(d, func(n ast.Node) bool {
			inBubble = inBubble || bubble(n)
			return true
		})
		ast.Inspect(d, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && !inBubble && calls(call, "time", "Sleep") {
				at = append(at, call.Pos())
			}
			return true
		})
	}
	return at
}

func calls(call *ast.CallExpr, pkg, name string) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == pkg
}
