import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDatabase, type TestDatabase } from "../support/database.js";
import {
  createFixtureApp,
  DRIZZLE_MAJORS,
  type FixtureApp,
  removeSchemaDoor,
} from "./fixture-app.js";

afterAll(removeSchemaDoor);

describe.each(DRIZZLE_MAJORS)("db.query of an app on drizzle-orm %s", (major) => {
  let app: FixtureApp;
  let database: TestDatabase;

  beforeAll(async () => {
    app = createFixtureApp(major);
    database = await createDatabase();
    await database.pool.query(`
      create table reports (
        id integer primary key, user_id integer not null,
        job_id bigint references queue_jobs on delete set null);
      insert into queue_jobs (queue, name, payload, input_hash, available_at)
        values ('default', 'report', '{"reportId": 7}', '\\x00ff10', '2030-01-02T03:04:05.678Z');
      insert into reports values (7, 1, (select id from queue_jobs));`);
  });
  afterAll(async () => {
    app.remove();
    await database.drop();
  });

  test("follows relations from its tables to the jobs and back", async () => {
    const output = await app.run(`relations-${major}.ts`, { DATABASE_URL: database.url });
    const { reports, jobs } = JSON.parse(output);
    expect(reports).toMatchObject([
      {
        id: 7,
        job: {
          id: 1,
          name: "report",
          status: "queued",
          payload: { reportId: 7 },
          availableAt: "2030-01-02T03:04:05.678Z",
          inputHash: { 0: 0, 1: 255, 2: 16 },
          outcome: null,
        },
      },
    ]);
    expect(jobs).toEqual([[{ id: 7, userId: 1, jobId: 1 }]]);
  });
});
