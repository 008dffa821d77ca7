package reflex_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everstep-go/everstep/reflex"
)

func TestADirectoryThatWasBeingReplacedIsWholeAfterACrash(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		left map[string]string // directories that the crash left, with what a file in them says
		want string
	}{
		"while it copied":         {map[string]string{"": "before", ".new": "half"}, "before"},
		"between the renames":     {map[string]string{".old": "before", ".new": "after"}, "after"},
		"before it cleaned up":    {map[string]string{"": "after", ".old": "before"}, "after"},
		"with only the old there": {map[string]string{".old": "before"}, "before"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spaces, err := reflex.NewDirectories(t.TempDir(), nil)
			require.NoError(t, err)
			thread := reflex.Thread{ID: "../../etc/passwd"}
			dir, err := spaces.Open(t.Context(), thread)
			require.NoError(t, err)
			require.NoError(t, os.RemoveAll(dir))
			for suffix, text := range tt.left {
				require.NoError(t, os.Mkdir(dir+suffix, 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(dir+suffix, "note"), []byte(text), 0o600))
			}
			dir, err = spaces.Open(t.Context(), thread)
			require.NoError(t, err)
			text, err := os.ReadFile(filepath.Join(dir, "note"))
			require.NoError(t, err)
			require.Equal(t, tt.want, string(text))
			require.NoError(t, spaces.Save(t.Context(), thread))
		})
	}
}

func TestACopyOfAWorkspaceKeepsLinksAndModes(t *testing.T) {
	t.Parallel()
	spaces, err := reflex.NewDirectories(t.TempDir(), nil)
	require.NoError(t, err)
	from, to := reflex.Thread{ID: "from"}, reflex.Thread{ID: "to"}
	require.NoError(t, spaces.Carry(t.Context(), from, to), "there is nothing to carry")
	require.NoError(t, spaces.Save(t.Context(), from))
	dir, err := spaces.Open(t.Context(), from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run.sh"), []byte("true"), 0o700))
	require.NoError(t, os.Symlink("run.sh", filepath.Join(dir, "link")))
	require.NoError(t, spaces.Carry(t.Context(), from, to))
	dir, err = spaces.Open(t.Context(), to)
	require.NoError(t, err)
	link, err := os.Readlink(filepath.Join(dir, "link"))
	require.NoError(t, err)
	require.Equal(t, "run.sh", link)
	info, err := os.Stat(filepath.Join(dir, "run.sh"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	require.ErrorIs(t, spaces.Materialise(t.Context(), to, "none", ""), reflex.ErrUnknownProject)
	require.ErrorIs(t, reflex.NoWorkspaces{}.Materialise(t.Context(), to, "none", ""), reflex.ErrUnknownProject)
}

func TestDirectoriesThatNobodySavedForLongGo(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	spaces, err := reflex.NewDirectories(root, nil)
	require.NoError(t, err)
	old, recent := reflex.Thread{ID: "old"}, reflex.Thread{ID: "recent"}
	for _, thread := range []reflex.Thread{old, recent} {
		_, err := spaces.Open(t.Context(), thread)
		require.NoError(t, err)
		require.NoError(t, spaces.Save(t.Context(), thread))
	}
	then := time.Now().Add(-time.Hour)
	dirs, err := filepath.Glob(filepath.Join(root, "*", "*"))
	require.NoError(t, err)
	require.Len(t, dirs, 4)
	for _, dir := range dirs {
		require.NoError(t, os.Chtimes(dir, then, then))
	}
	require.NoError(t, spaces.Save(t.Context(), recent))
	n, err := spaces.Prune(t.Context(), then.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, 3, n, "all but what was saved again")
	dirs, err = filepath.Glob(filepath.Join(root, "*", "*"))
	require.NoError(t, err)
	require.Len(t, dirs, 1)
}
