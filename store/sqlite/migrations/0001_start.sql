-- Sessions have a number of their own, sid, because every row below carries it: the keys k are
-- sid << 32 | sequence, so that a table lies sorted by session and, within it, by sequence, and
-- needs no second index for that order. Times are nanoseconds since 1970. Roles, statuses and
-- reasons are numbers where this version has one for them, else text.

CREATE TABLE sessions (
	sid     INTEGER PRIMARY KEY,
	tenant  TEXT    NOT NULL,
	id      BLOB    NOT NULL,
	created INTEGER NOT NULL,
	updated INTEGER NOT NULL, -- when the last run began
	latest  INTEGER NOT NULL, -- the time of what was written last; the next is not older
	seq     INTEGER NOT NULL, -- the last sequence that was given
	lines   INTEGER NOT NULL, -- the last line that was opened
	head    INTEGER NOT NULL, -- 0: no checkpoint yet
	base    INTEGER NOT NULL,
	active  INTEGER NOT NULL, -- sequence of the active run, 0: idle
	waiting INTEGER NOT NULL  -- how many runs wait for their turn
) STRICT;
CREATE UNIQUE INDEX sessions_id ON sessions (tenant, id);
CREATE INDEX sessions_created ON sessions (tenant, created, id);

CREATE TABLE lines (
	k      INTEGER PRIMARY KEY, -- sid << 32 | line
	parent INTEGER NOT NULL,
	fork   INTEGER NOT NULL
) STRICT;

CREATE TABLE runs (
	k         INTEGER PRIMARY KEY,
	id        BLOB    NOT NULL,
	graph     TEXT    NOT NULL,
	status    ANY     NOT NULL,
	created   INTEGER NOT NULL,
	updated   INTEGER NOT NULL,
	line      INTEGER NOT NULL,
	start     INTEGER NOT NULL, -- the checkpoint it started from, 0: none
	last      INTEGER NOT NULL, -- its last checkpoint, 0: none
	attached  INTEGER NOT NULL,
	branch    INTEGER NOT NULL,
	waiting   INTEGER NOT NULL,
	owner     BLOB,
	epoch     INTEGER NOT NULL,
	lease     INTEGER NOT NULL,
	takeovers INTEGER NOT NULL,
	cancel    INTEGER NOT NULL,
	write_id  BLOB,             -- of its last write, and
	written   BLOB,             -- what that write was answered
	code      TEXT    NOT NULL,
	error     TEXT    NOT NULL
) STRICT;
CREATE INDEX runs_id ON runs (id);

-- The few runs that have not ended, to find them among all. A table instead of an index on their
-- status: one page for both this and the params. The lease is in no index, for renewing it must
-- stay cheap.
CREATE TABLE running (
	k      INTEGER PRIMARY KEY, -- of the run
	params BLOB                 -- not in runs, where each write of the run would copy them
) STRICT;

CREATE TABLE checkpoints (
	k        INTEGER PRIMARY KEY,
	id       BLOB    NOT NULL,
	run      INTEGER NOT NULL, -- its sequence
	line     INTEGER NOT NULL,
	node     TEXT    NOT NULL,
	next     TEXT    NOT NULL,
	status   ANY     NOT NULL,
	reason   ANY     NOT NULL,
	parent   ANY,              -- its sequence; the id if the session has no such checkpoint
	document INTEGER NOT NULL, -- the sequence of the document in force, 0: none
	version  INTEGER NOT NULL,
	created  INTEGER NOT NULL,
	metadata BLOB
) STRICT;
CREATE INDEX checkpoints_id ON checkpoints (id);

CREATE TABLE documents (
	k    INTEGER PRIMARY KEY, -- of the checkpoint that brought it
	base INTEGER,             -- a patch: the sequence of the document it applies to
	body BLOB NOT NULL
) STRICT;

-- The line stands first and the body last, so that the messages of other lines are passed over
-- without reading their bodies.
CREATE TABLE messages (
	k          INTEGER PRIMARY KEY,
	line       INTEGER NOT NULL,
	role       ANY     NOT NULL,
	created    INTEGER NOT NULL,
	id         BLOB    NOT NULL,
	run        BLOB,
	checkpoint BLOB,
	body       BLOB    NOT NULL
) STRICT;
CREATE INDEX messages_id ON messages (id);
CREATE INDEX messages_base ON messages (line) WHERE line = 0;

CREATE TABLE tasks (
	k     INTEGER NOT NULL, -- of the checkpoint
	key   TEXT    NOT NULL,
	done  INTEGER NOT NULL, -- 0: only started
	place INTEGER NOT NULL, -- in the order in which they were started or done
	value BLOB,
	PRIMARY KEY (k, key)
) STRICT, WITHOUT ROWID;
