package powercut

/*
#cgo LDFLAGS: -Wl,--unresolved-symbols=ignore-in-object-files
#include "recorder.h"
#include <stdlib.h>
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	_ "github.com/mattn/go-sqlite3" // SQLite itself, which the recorder is linked with
)

// install makes the recorder the file system of SQLite in this process. It passes everything on,
// and writes it down for the directory that is being recorded.
var install = sync.OnceValue(func() error {
	if C.recorder_install() != 0 {
		return errors.New("powercut: SQLite has no file system to record")
	}
	return nil
})

// record returns what SQLite asked of the files in dir while do ran. One record at a time.
func record(dir string, do func()) ([]op, error) {
	if err := install(); err != nil {
		return nil, err
	}
	prefix := C.CString(dir + string(filepath.Separator))
	defer C.free(unsafe.Pointer(prefix))
	C.recorder_start(prefix)
	do()
	var n C.size_t
	p := C.recorder_stop(&n)
	defer C.free(unsafe.Pointer(p))
	return parse(unsafe.Slice((*byte)(unsafe.Pointer(p)), int(n)), dir), nil
}

// mark puts a number into the record, between what came before and what comes after.
func mark(n int) { C.recorder_mark(C.longlong(n)) }

// parse reads a record. The bytes are copied out of it.
func parse(b []byte, dir string) []op {
	const header = 24
	var ops []op
	for len(b) > 0 {
		o := op{kind: kind(binary.NativeEndian.Uint32(b)), offset: int64(binary.NativeEndian.Uint64(b[8:]))}
		name, data := int(binary.NativeEndian.Uint32(b[4:])), int(binary.NativeEndian.Uint64(b[16:]))
		b = b[header:]
		o.name = strings.TrimPrefix(string(b[:name]), dir+string(filepath.Separator))
		o.data = append([]byte(nil), b[name:name+data]...)
		b = b[name+data:]
		ops = append(ops, o)
	}
	return ops
}
