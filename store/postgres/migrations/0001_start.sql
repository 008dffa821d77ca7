-- Sessions have a number of their own, sid, and every row below begins with it: a table lies by
-- session and, within it, by sequence. Times are nanoseconds since 1970. Texts that users choose are
-- bytea, for text refuses NUL; where they are in an index, their hash is, for they may be long. An id
-- that is not set is all zeros.
--
-- What each write changes (sequences, leases, last checkpoints) is in no index, and the pages of
-- those tables have room left: so the updates are HOT and touch no index.

CREATE TABLE everstep.sessions (
	sid     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant  bytea  NOT NULL,
	id      uuid   NOT NULL,
	created bigint NOT NULL,
	updated bigint NOT NULL, -- when the last run began
	latest  bigint NOT NULL, -- the time of what was written last; the next is not older
	seq     bigint NOT NULL DEFAULT 0, -- the last sequence that was given
	lines   bigint NOT NULL DEFAULT 0, -- the last line that was opened
	head    bigint NOT NULL DEFAULT 0, -- 0: no checkpoint yet
	base    bigint NOT NULL,
	active  uuid   NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000', -- the active run
	waiting bigint NOT NULL DEFAULT 0  -- how many runs wait for their turn
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX sessions_id ON everstep.sessions (id, sha256(tenant));
CREATE INDEX sessions_created ON everstep.sessions (sha256(tenant), created, id);

CREATE TABLE everstep.lines (
	sid    bigint NOT NULL,
	line   bigint NOT NULL,
	parent bigint NOT NULL,
	fork   bigint NOT NULL,
	PRIMARY KEY (sid, line)
);

CREATE TABLE everstep.runs (
	sid        bigint   NOT NULL,
	seq        bigint   NOT NULL,
	tenant     bytea    NOT NULL,
	id         uuid     NOT NULL,
	session    uuid     NOT NULL,
	graph      bytea    NOT NULL,
	status     text     NOT NULL,
	created    bigint   NOT NULL,
	updated    bigint   NOT NULL,
	line       bigint   NOT NULL,
	start      bigint   NOT NULL, -- the checkpoint it started from, 0: none
	last       bigint   NOT NULL, -- its last checkpoint, 0: none
	document   bigint   NOT NULL, -- the sequence of the document in force, 0: none
	places     bigint   NOT NULL, -- given to tasks of its last checkpoint
	attached   boolean  NOT NULL,
	branch     boolean  NOT NULL,
	waiting    boolean  NOT NULL,
	owner      uuid     NOT NULL,
	epoch      bigint   NOT NULL,
	lease      bigint   NOT NULL,
	takeovers  bigint   NOT NULL,
	cancel     boolean  NOT NULL,
	write_id   uuid     NOT NULL, -- of its last write, and
	written_at bigint   NOT NULL, -- what that write was answered
	written    bigint[] NOT NULL,
	waited     boolean  NOT NULL, -- when it began, and
	base       bigint   NOT NULL, -- the session's then
	code       bytea    NOT NULL,
	error      bytea    NOT NULL,
	PRIMARY KEY (sid, seq)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX runs_id ON everstep.runs (id, sha256(tenant));

-- The few runs that have not ended, to find them among all, with what is not in runs, where each
-- write of the run would copy it.
CREATE TABLE everstep.running (
	sid    bigint NOT NULL,
	seq    bigint NOT NULL, -- of the run
	params bytea,
	PRIMARY KEY (sid, seq)
);

CREATE TABLE everstep.checkpoints (
	sid      bigint NOT NULL,
	seq      bigint NOT NULL,
	id       uuid   NOT NULL,
	run      uuid   NOT NULL,
	line     bigint NOT NULL,
	node     bytea  NOT NULL,
	next     bytea  NOT NULL,
	status   text   NOT NULL,
	reason   text   NOT NULL,
	parent   uuid   NOT NULL,
	document bigint NOT NULL, -- the sequence of the document in force, 0: none
	version  bigint NOT NULL,
	created  bigint NOT NULL,
	metadata bytea,
	PRIMARY KEY (sid, seq)
);
CREATE INDEX checkpoints_id ON everstep.checkpoints (id);

CREATE TABLE everstep.documents (
	sid  bigint NOT NULL,
	seq  bigint NOT NULL, -- of the checkpoint that brought it
	base bigint,          -- a patch: the sequence of the document it applies to
	body bytea  NOT NULL,
	PRIMARY KEY (sid, seq)
);

CREATE TABLE everstep.messages (
	sid        bigint NOT NULL,
	seq        bigint NOT NULL,
	line       bigint NOT NULL,
	role       text   NOT NULL,
	created    bigint NOT NULL,
	id         uuid   NOT NULL,
	run        uuid   NOT NULL,
	checkpoint uuid   NOT NULL,
	body       bytea  NOT NULL,
	PRIMARY KEY (sid, seq)
);
CREATE INDEX messages_id ON everstep.messages (id);
CREATE INDEX messages_base ON everstep.messages (sid, seq) WHERE line = 0;

CREATE TABLE everstep.tasks (
	sid        bigint  NOT NULL,
	checkpoint bigint  NOT NULL, -- its sequence
	key        bytea   NOT NULL,
	done       boolean NOT NULL, -- false: only started
	place      bigint  NOT NULL, -- in the order in which they were started or done
	value      bytea
);
CREATE UNIQUE INDEX tasks_key ON everstep.tasks (sid, checkpoint, sha256(key));
