// A file system for SQLite that is the usual one and writes down what is asked of it.

#include "recorder.h"
#include "sqlite3.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { OP_CREATE = 1, OP_WRITE, OP_TRUNCATE, OP_SYNC, OP_DELETE, OP_MARK };

struct header {
	int op;
	int name; // length of the name that follows
	long long offset;
	long long data; // length of the data that follow the name
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; // guards what follows
static char *dir;
static char *record;
static size_t used, size;
static unsigned long long random_state;

static void put(const void *p, size_t n) {
	if (used + n > size) {
		size = 2 * (used + n);
		record = realloc(record, size);
		if (record == NULL) abort();
	}
	memcpy(record + used, p, n);
	used += n;
}

static int recorded(const char *name) {
	return name != NULL && dir != NULL && strncmp(name, dir, strlen(dir)) == 0;
}

static void note(int op, const char *name, long long offset, const void *data, long long n) {
	pthread_mutex_lock(&mu);
	if (op == OP_MARK ? dir != NULL : recorded(name)) {
		struct header h = {op, name == NULL ? 0 : (int)strlen(name), offset, n};
		put(&h, sizeof h);
		if (h.name > 0) put(name, h.name);
		if (n > 0) put(data, n);
	}
	pthread_mutex_unlock(&mu);
}

// A file of ours is followed in memory by the one of the usual file system.
typedef struct {
	sqlite3_file base;
	const char *name; // SQLite keeps it as long as the file
} file;

#define REAL(f) ((sqlite3_file *)((file *)(f) + 1))
#define CALL(f, method, ...) (REAL(f)->pMethods->method(REAL(f), ##__VA_ARGS__))

static int f_close(sqlite3_file *f) { return CALL(f, xClose); }
static int f_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at) { return CALL(f, xRead, p, n, at); }

static int f_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at) {
	int rc = CALL(f, xWrite, p, n, at);
	if (rc == SQLITE_OK) note(OP_WRITE, ((file *)f)->name, at, p, n);
	return rc;
}

static int f_truncate(sqlite3_file *f, sqlite3_int64 n) {
	int rc = CALL(f, xTruncate, n);
	if (rc == SQLITE_OK) note(OP_TRUNCATE, ((file *)f)->name, n, NULL, 0);
	return rc;
}

static int f_sync(sqlite3_file *f, int flags) {
	int rc = CALL(f, xSync, flags);
	if (rc == SQLITE_OK) note(OP_SYNC, ((file *)f)->name, 0, NULL, 0);
	return rc;
}

static int f_size(sqlite3_file *f, sqlite3_int64 *n) { return CALL(f, xFileSize, n); }
static int f_lock(sqlite3_file *f, int level) { return CALL(f, xLock, level); }
static int f_unlock(sqlite3_file *f, int level) { return CALL(f, xUnlock, level); }
static int f_reserved(sqlite3_file *f, int *out) { return CALL(f, xCheckReservedLock, out); }
static int f_control(sqlite3_file *f, int op, void *arg) { return CALL(f, xFileControl, op, arg); }
static int f_sector(sqlite3_file *f) { return CALL(f, xSectorSize); }
static int f_characteristics(sqlite3_file *f) { return CALL(f, xDeviceCharacteristics); }
static int f_shm_map(sqlite3_file *f, int page, int n, int extend, void volatile **p) { return CALL(f, xShmMap, page, n, extend, p); }
static int f_shm_lock(sqlite3_file *f, int at, int n, int flags) { return CALL(f, xShmLock, at, n, flags); }
static void f_shm_barrier(sqlite3_file *f) { CALL(f, xShmBarrier); }
static int f_shm_unmap(sqlite3_file *f, int remove) { return CALL(f, xShmUnmap, remove); }
static int f_fetch(sqlite3_file *f, sqlite3_int64 at, int n, void **p) { return CALL(f, xFetch, at, n, p); }
static int f_unfetch(sqlite3_file *f, sqlite3_int64 at, void *p) { return CALL(f, xUnfetch, at, p); }

static const sqlite3_io_methods methods = {
	3, f_close, f_read, f_write, f_truncate, f_sync, f_size, f_lock, f_unlock, f_reserved, f_control, f_sector,
	f_characteristics, f_shm_map, f_shm_lock, f_shm_barrier, f_shm_unmap, f_fetch, f_unfetch,
};

static sqlite3_vfs *usual;

static int v_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out) {
	int exists = 0;
	(void)v;
	if (name != NULL) usual->xAccess(usual, name, 0, &exists);
	f->pMethods = NULL;
	((file *)f)->name = name;
	int rc = usual->xOpen(usual, name, REAL(f), flags, out);
	if (REAL(f)->pMethods != NULL) f->pMethods = &methods;
	if (rc == SQLITE_OK && !exists) note(OP_CREATE, name, 0, NULL, 0);
	return rc;
}

static int v_delete(sqlite3_vfs *v, const char *name, int sync) {
	(void)v;
	int rc = usual->xDelete(usual, name, sync);
	if (rc == SQLITE_OK) note(OP_DELETE, name, sync, NULL, 0);
	return rc;
}

// The same numbers for each record, so that the same calls leave the same bytes.
static int v_randomness(sqlite3_vfs *v, int n, char *out) {
	(void)v;
	pthread_mutex_lock(&mu);
	for (int i = 0; i < n; i++) {
		random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
		out[i] = (char)(random_state >> 56);
	}
	pthread_mutex_unlock(&mu);
	return n;
}

static sqlite3_vfs recorder;

// recorder_install makes the recorder the file system of all connections to come.
int recorder_install(void) {
	usual = sqlite3_vfs_find("unix");
	if (usual == NULL) return 1;
	recorder = *usual;
	recorder.iVersion = 2; // without the replacement of system calls
	recorder.zName = "powercut";
	recorder.pNext = NULL;
	recorder.szOsFile = (int)sizeof(file) + usual->szOsFile;
	recorder.xOpen = v_open;
	recorder.xDelete = v_delete;
	recorder.xRandomness = v_randomness;
	return sqlite3_vfs_register(&recorder, 1);
}

// recorder_start begins a record of the files whose names begin with d.
void recorder_start(const char *d) {
	pthread_mutex_lock(&mu);
	free(dir);
	dir = strdup(d);
	used = 0;
	random_state = 1;
	pthread_mutex_unlock(&mu);
	sqlite3_randomness(0, NULL); // SQLite asks anew for the seed of its own numbers
}

void recorder_mark(long long n) { note(OP_MARK, NULL, n, NULL, 0); }

// recorder_stop ends the record and gives it away.
char *recorder_stop(size_t *len) {
	pthread_mutex_lock(&mu);
	char *r = record;
	*len = used;
	free(dir);
	dir = NULL;
	record = NULL;
	used = size = 0;
	pthread_mutex_unlock(&mu);
	return r;
}
