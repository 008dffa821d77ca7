// Package powercut proves what store/sqlite promises about power cuts, on the package itself: its
// schema, its statements, its connections and its SQLite.
//
// A layer between SQLite and the file system of the process records what SQLite asks of it: every
// write with its bytes, every truncation, every flush. The record is the history of the disk. A
// power cut is a moment in it: what was flushed before is there; of the rest each write may be
// there, or be missing, or be there in part, by sectors of 512 bytes, for a disk writes in any order
// what it was not told to flush. The tests make up such disks, open them with store/sqlite, and
// compare what they find with what had been acknowledged at that moment.
//
// A disk that takes no notice of flushes is the control: it must come out damaged, else the
// tests are blind. It does what synchronous=OFF allows.
//
// One seed gives the same record and the same cuts each time, unless the writers run at once. More of
// them:
//
//	go test -run Full -timeout 2h . -powercut.cuts 10000 -powercut.seed 7
//
// The layer works on Linux, where store/sqlite's binding to SQLite is linked into the test.
package powercut
