CREATE TABLE outgoing_email (
    id BIGINT NOT NULL AUTO_INCREMENT,
    dedupe_key VARCHAR(255) NOT NULL,
    idempotency_key VARCHAR(160) NOT NULL,
    message_id VARCHAR(340) NOT NULL,
    sender VARCHAR(320) NOT NULL,
    recipient VARCHAR(320) NOT NULL,
    raw BLOB(4294967295) NOT NULL,
    priority INTEGER NOT NULL,
    expires_at DATETIME(6),
    created_at DATETIME(6) NOT NULL,
    queued_at DATETIME(6) NOT NULL,
    state VARCHAR(16) NOT NULL,
    attempts INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    next_attempt_at DATETIME(6),
    lease_until DATETIME(6),
    token INTEGER NOT NULL,
    in_doubt BOOL NOT NULL,
    doubted_at DATETIME(6),
    may_repeat BOOL NOT NULL,
    if_not_sent VARCHAR(16),
    provider_id VARCHAR(255),
    last_error TEXT(16777215),
    last_code INTEGER,
    raw_answer TEXT(16777215),
    first_attempt_at DATETIME(6),
    accepted_at DATETIME(6),
    updated_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT outgoing_email_state CHECK (state IN ('pending', 'sending', 'accepted', 'unknown', 'failed', 'expired', 'suppressed', 'dead')),
    UNIQUE (idempotency_key)
)CHARSET=utf8mb4 ENGINE=InnoDB COLLATE utf8mb4_bin;
CREATE INDEX outgoing_email_provider_id ON outgoing_email (provider_id);
CREATE INDEX outgoing_email_lease ON outgoing_email (state, lease_until);
CREATE INDEX outgoing_email_due ON outgoing_email (state, priority DESC, next_attempt_at);
CREATE INDEX outgoing_email_doubt ON outgoing_email (state, next_attempt_at);
CREATE INDEX outgoing_email_dedupe_key ON outgoing_email (dedupe_key);
CREATE INDEX outgoing_email_message_id ON outgoing_email (message_id);
CREATE TABLE email_attempt (
    id BIGINT NOT NULL AUTO_INCREMENT,
    email_id BIGINT NOT NULL,
    token INTEGER NOT NULL,
    started_at DATETIME(6),
    ended_at DATETIME(6) NOT NULL,
    phase VARCHAR(16),
    code INTEGER,
    enhanced VARCHAR(16),
    trouble VARCHAR(64),
    answer TEXT(16777215),
    provider_id VARCHAR(255),
    decision VARCHAR(16) NOT NULL,
    reason TEXT(16777215) NOT NULL,
    late BOOL NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(email_id) REFERENCES outgoing_email (id) ON DELETE CASCADE
)CHARSET=utf8mb4 ENGINE=InnoDB COLLATE utf8mb4_bin;
CREATE INDEX ix_email_attempt_email_id ON email_attempt (email_id);
