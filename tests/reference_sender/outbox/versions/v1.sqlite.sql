CREATE TABLE outgoing_email (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    dedupe_key VARCHAR(255) NOT NULL,
    idempotency_key VARCHAR(160) NOT NULL,
    message_id VARCHAR(340) NOT NULL,
    sender VARCHAR(320) NOT NULL,
    recipient VARCHAR(320) NOT NULL,
    raw BLOB NOT NULL,
    priority INTEGER NOT NULL,
    expires_at DATETIME,
    created_at DATETIME NOT NULL,
    queued_at DATETIME NOT NULL,
    state VARCHAR(16) NOT NULL,
    attempts INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    next_attempt_at DATETIME,
    lease_until DATETIME,
    token INTEGER NOT NULL,
    in_doubt BOOLEAN NOT NULL,
    doubted_at DATETIME,
    may_repeat BOOLEAN NOT NULL,
    if_not_sent VARCHAR(16),
    provider_id VARCHAR(255),
    last_error TEXT,
    last_code INTEGER,
    raw_answer TEXT,
    first_attempt_at DATETIME,
    accepted_at DATETIME,
    updated_at DATETIME NOT NULL,
    CONSTRAINT outgoing_email_state CHECK (state IN ('pending', 'sending', 'accepted', 'unknown', 'failed', 'expired', 'suppressed', 'dead')),
    UNIQUE (idempotency_key)
);
CREATE INDEX outgoing_email_doubt ON outgoing_email (next_attempt_at) WHERE state = 'unknown';
CREATE INDEX outgoing_email_provider_id ON outgoing_email (provider_id);
CREATE INDEX outgoing_email_lease ON outgoing_email (lease_until) WHERE state = 'sending';
CREATE INDEX outgoing_email_due ON outgoing_email (priority DESC, next_attempt_at) WHERE state = 'pending';
CREATE INDEX outgoing_email_dedupe_key ON outgoing_email (dedupe_key);
CREATE INDEX outgoing_email_message_id ON outgoing_email (message_id);
CREATE TABLE email_attempt (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    email_id INTEGER NOT NULL,
    token INTEGER NOT NULL,
    started_at DATETIME,
    ended_at DATETIME NOT NULL,
    phase VARCHAR(16),
    code INTEGER,
    enhanced VARCHAR(16),
    trouble VARCHAR(64),
    answer TEXT,
    provider_id VARCHAR(255),
    decision VARCHAR(16) NOT NULL,
    reason TEXT NOT NULL,
    late BOOLEAN NOT NULL,
    FOREIGN KEY(email_id) REFERENCES outgoing_email (id) ON DELETE CASCADE
);
CREATE INDEX ix_email_attempt_email_id ON email_attempt (email_id);
