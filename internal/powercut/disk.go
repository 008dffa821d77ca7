package powercut

import (
	"math/rand/v2"
	"slices"
)

// An op is one entry of the record.
type op struct {
	kind   kind
	name   string
	offset int64 // of a write; the size of a truncation; whether a deletion was flushed; the number of a mark
	data   []byte
}

type kind int

const (
	create kind = iota + 1
	write
	truncate
	flush
	remove
	marker
)

// sector is what a disk writes whole.
const sector = 512

// A disk is what is on the medium and what is only promised to be.
type disk struct {
	// liar is a disk that says it flushed and did not. It still writes what is old.
	liar  bool
	files map[string]*file
	// ghosts are files whose deletion was not flushed: they may be there again.
	ghosts map[string]*file
}

// A file has its flushed bytes, and the ops since then in order.
type file struct {
	flushed []byte
	pending []op
	listed  bool // its directory was flushed since it was created
}

// lag is how many ops a liar has not carried out at most.
const lag = 300

func newDisk(liar bool) *disk {
	return &disk{liar: liar, files: map[string]*file{}, ghosts: map[string]*file{}}
}

// do carries out an op.
func (d *disk) do(o op) {
	if o.kind == marker {
		return
	}
	f := d.files[o.name]
	if f == nil && o.kind != remove {
		f = &file{}
		d.files[o.name] = f
	}
	switch o.kind {
	case write, truncate:
		f.pending = append(f.pending, o)
		if d.liar && len(f.pending) > lag {
			f.flushed = f.pending[0].apply(f.flushed)
			f.pending = f.pending[1:]
		}
	case flush:
		if !d.liar {
			for _, p := range f.pending {
				f.flushed = p.apply(f.flushed)
			}
			f.pending = nil
		}
		if !f.listed {
			d.flushDirectory() // SQLite flushes it with a file that it created
		}
	case remove:
		if f != nil && f.listed {
			d.ghosts[o.name] = f
		}
		delete(d.files, o.name)
		if o.offset != 0 {
			d.flushDirectory()
		}
	}
}

func (d *disk) flushDirectory() {
	clear(d.ghosts)
	for _, f := range d.files {
		f.listed = true
	}
}

// apply returns the bytes of a file after the op.
func (o op) apply(b []byte) []byte {
	if o.kind == truncate {
		return resize(b, int(o.offset))
	}
	if end := int(o.offset) + len(o.data); end > len(b) {
		b = resize(b, end)
	}
	copy(b[o.offset:], o.data)
	return b
}

func resize(b []byte, n int) []byte {
	if n <= len(b) {
		return b[:n:n] // what grows again is zero
	}
	return append(b, make([]byte, n-len(b))...)
}

// cut returns the files as the next start finds them, with chance as the source of what happened
// to what was not flushed.
func (d *disk) cut(chance *rand.Rand) map[string][]byte {
	// Sometimes nearly everything was written, sometimes nearly nothing.
	kept := []float64{0, 0.1, 0.5, 0.9, 1}[chance.IntN(5)]
	torn := []float64{0, 0.3}[chance.IntN(2)]
	found := map[string][]byte{}
	for _, name := range names(d.ghosts) {
		if chance.IntN(2) == 0 {
			found[name] = d.ghosts[name].left(chance, kept, torn)
		}
	}
	for _, name := range names(d.files) {
		f := d.files[name]
		if f.listed || chance.IntN(2) == 0 {
			found[name] = f.left(chance, kept, torn)
		}
	}
	return found
}

// names returns the keys in order, for the same chance must meet the same files.
func names(files map[string]*file) []string {
	var all []string
	for name := range files {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// left returns the bytes of the file after a cut.
func (f *file) left(chance *rand.Rand, kept, torn float64) []byte {
	b := slices.Clone(f.flushed)
	for _, o := range f.pending {
		switch {
		case chance.Float64() >= kept:
		case o.kind == write && chance.Float64() < torn:
			for _, part := range o.sectors() {
				if chance.IntN(2) == 0 {
					b = part.apply(b)
				}
			}
		default:
			b = o.apply(b)
		}
	}
	return b
}

// sectors splits a write as the disk does.
func (o op) sectors() []op {
	var parts []op
	for at, rest := o.offset, o.data; len(rest) > 0; {
		n := min(int(sector-at%sector), len(rest))
		parts = append(parts, op{kind: write, name: o.name, offset: at, data: rest[:n]})
		at, rest = at+int64(n), rest[n:]
	}
	return parts
}
