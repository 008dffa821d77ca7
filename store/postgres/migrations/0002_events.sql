-- The logs of runs that a Bus carries to other processes, in chunks. Nothing is lost with them that
-- is not in the tables above, so they are not logged: a crash of the server empties the table.
CREATE UNLOGGED TABLE everstep.events (
	run     uuid    NOT NULL,
	tenant  bytea   NOT NULL, -- its SHA-256
	first   bigint  NOT NULL, -- the number of the first event, and
	last    bigint  NOT NULL, -- of the last one
	session uuid    NOT NULL,
	ended   boolean NOT NULL, -- the last one is the last of the run
	at      bigint  NOT NULL, -- when it was added
	size    integer NOT NULL, -- of the body
	body    bytea   NOT NULL,
	PRIMARY KEY (run, tenant, first)
);
-- Bodies are read as often as they are written, and soon gone: not worth compressing.
ALTER TABLE everstep.events ALTER COLUMN body SET STORAGE EXTERNAL;
