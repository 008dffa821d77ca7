-- Records of programs: see store.Records. Keys are bytes, to be ordered as such.

CREATE TABLE records (
	tenant  TEXT    NOT NULL,
	kind    TEXT    NOT NULL,
	key     BLOB    NOT NULL,
	version INTEGER NOT NULL,
	value   BLOB    NOT NULL,
	PRIMARY KEY (tenant, kind, key)
) STRICT, WITHOUT ROWID;
