import { sql } from "drizzle-orm";
import { bigint, index, integer, pgTable, text, timestamp, unique } from "drizzle-orm/pg-core";
import { queueJobs } from "drizzle-queue/schema";

// The queue's tables join the app's own: one schema, one folder of migrations.
export * from "drizzle-queue/schema";

/** Airports of the United States. */
export const airports = pgTable("airports", {
  code: text("code").primaryKey(),
  name: text("name").notNull(),
  city: text("city").notNull(),
});

/** Flights of the year 2001, each with how late it arrived. */
export const flights = pgTable(
  "flights",
  {
    id: bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity(),
    origin: text("origin").notNull(),
    destination: text("destination").notNull(),
    departure: timestamp("departure", { mode: "string" }).notNull(),
    delayMinutes: integer("delay_minutes").notNull(),
    distanceMiles: integer("distance_miles").notNull(),
  },
  (flight) => [index("flights_origin_idx").on(flight.origin)],
);

/** What was asked for: a row here and its job are written in one transaction. */
export const reports = pgTable(
  "reports",
  {
    id: bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity(),
    airport: text("airport")
      .notNull()
      .references(() => airports.code),
    kind: text("kind").notNull(),
    jobId: bigint("job_id", { mode: "number" })
      .notNull()
      .references(() => queueJobs.id),
    requestedAt: timestamp("requested_at", { withTimezone: true })
      .notNull()
      .default(sql`clock_timestamp()`),
  },
  (report) => [unique("reports_job_id_unique").on(report.jobId)],
);

/**
 * What the workers drew. On purpose nothing here is unique but the id: if a
 * report were ever made twice, two rows would show it.
 */
export const charts = pgTable("charts", {
  id: bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity(),
  reportId: bigint("report_id", { mode: "number" })
    .notNull()
    .references(() => reports.id),
  svg: text("svg").notNull(),
  worker: text("worker").notNull(),
  attempt: integer("attempt").notNull(),
  startedAt: timestamp("started_at", { withTimezone: true }).notNull(),
  madeAt: timestamp("made_at", { withTimezone: true }).notNull(),
});
