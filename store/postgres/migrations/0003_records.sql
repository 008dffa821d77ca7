-- Records of programs: see store.Records. Kinds and keys are bytes, to be compared as such.
CREATE TABLE everstep.records (
	tenant  bytea  NOT NULL, -- its SHA-256
	kind    bytea  NOT NULL,
	key     bytea  NOT NULL,
	version bigint NOT NULL,
	value   bytea  NOT NULL,
	PRIMARY KEY (tenant, kind, key)
);
