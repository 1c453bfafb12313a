CREATE TABLE "queue_jobs" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "queue_jobs_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"available_at" timestamp with time zone DEFAULT now() NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"max_attempts" integer DEFAULT 10 NOT NULL,
	"payload_version" integer DEFAULT 1 NOT NULL,
	"priority" smallint DEFAULT 5 NOT NULL,
	"blockers" smallint DEFAULT 0 NOT NULL,
	"queue" text NOT NULL,
	"name" text NOT NULL,
	"payload" jsonb NOT NULL,
	"idempotency_key" text,
	"input_hash" "bytea",
	"ordering_key" text,
	"ordering_sequence" bigint,
	"parent_id" bigint,
	"trace_context" jsonb,
	"cancel_requested_at" timestamp with time zone,
	"lease_version" integer DEFAULT 0 NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"expired_leases" smallint DEFAULT 0 NOT NULL,
	"status" text DEFAULT 'queued' NOT NULL,
	"lease_until" timestamp with time zone,
	"locked_by" text,
	"started_at" timestamp with time zone,
	"finished_at" timestamp with time zone,
	"outcome" text,
	"last_error" text,
	"error_history" jsonb,
	"result" jsonb,
	CONSTRAINT "queue_jobs_status_check" CHECK (status in ('queued', 'running', 'done', 'failed', 'cancelled')),
	CONSTRAINT "queue_jobs_outcome_final_check" CHECK ((status in ('done', 'failed', 'cancelled')) = (outcome is not null)),
	CONSTRAINT "queue_jobs_outcome_status_check" CHECK (outcome is null or outcome = status),
	CONSTRAINT "queue_jobs_finished_at_check" CHECK ((finished_at is null) = (outcome is null)),
	CONSTRAINT "queue_jobs_lease_until_check" CHECK ((status = 'running') = (lease_until is not null)),
	CONSTRAINT "queue_jobs_attempts_check" CHECK (attempts >= 0 and attempts <= max_attempts),
	CONSTRAINT "queue_jobs_max_attempts_check" CHECK (max_attempts >= 1),
	CONSTRAINT "queue_jobs_priority_check" CHECK (priority >= 0 and priority <= 9),
	CONSTRAINT "queue_jobs_blockers_check" CHECK (blockers >= 0 and blockers <= 7)
);
--> statement-breakpoint
CREATE TABLE "queue_processed_keys" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "queue_processed_keys_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"job_id" bigint NOT NULL,
	"processed_at" timestamp with time zone DEFAULT now() NOT NULL,
	"name" text NOT NULL,
	"idempotency_key" text NOT NULL,
	"input_hash" "bytea",
	"result" jsonb,
	"expires_at" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "queue_workers" (
	"id" text PRIMARY KEY NOT NULL,
	"queues" text[],
	"names" text[] NOT NULL,
	"waiting" boolean DEFAULT false NOT NULL,
	"poll_interval_ms" integer NOT NULL,
	"started_at" timestamp with time zone DEFAULT now() NOT NULL,
	"seen_at" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "queue_controls" (
	"queue" text PRIMARY KEY NOT NULL,
	"paused_at" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "queue_schedules" (
	"name" text PRIMARY KEY NOT NULL,
	"last_due_at" timestamp with time zone NOT NULL,
	"next_due_at" timestamp with time zone,
	"last_job_id" bigint,
	"paused_at" timestamp with time zone
);
--> statement-breakpoint
CREATE INDEX "queue_jobs_ready_idx" ON "queue_jobs" USING btree ("queue","priority","available_at","id") WHERE finished_at is null and blockers = 0;--> statement-breakpoint
CREATE INDEX "queue_jobs_outcome_idx" ON "queue_jobs" USING btree ("outcome","finished_at","id") WHERE finished_at is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "queue_jobs_name_key_unique" ON "queue_jobs" USING btree ("name","idempotency_key") WHERE idempotency_key is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "queue_processed_keys_name_key_unique" ON "queue_processed_keys" USING btree ("name","idempotency_key");--> statement-breakpoint
CREATE INDEX "queue_processed_keys_expires_at_idx" ON "queue_processed_keys" USING btree ("expires_at","id") WHERE expires_at is not null;