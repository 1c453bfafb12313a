import { readFileSync } from "node:fs";
import { describe, expect, inject, test } from "vitest";
import { startProgram } from "./run-program.js";

/** What each example prints below the line that names the database. */
const outputs: Readonly<Record<string, string>> = {
  "transactional-enqueue": `
Committed: orders 1, jobs 1
The card was declined.
Rolled back: orders 1, jobs 1
Enqueued again: created false, it is queued already
After the second enqueue: orders 1, jobs 1
Refused: INVALID_PAYLOAD at orderId
After the refusal: orders 2, jobs 1
`,
  "effect-once": `
Balance: 100
Invoice INV-7: a new job
Attempt 1: the power went off, rolled back
Balance: 100
Attempt 2: done
Balance: 120
Invoice INV-7: no new job, it is done
Balance: 120
`,
  "retries-and-verdicts": `
succeedsAtTheThird: done after 3 of 3 attempts
neverSucceeds: failed after 3 of 3 attempts: Error: still down
isNotWorthARetry: failed after 1 of 3 attempts: Error: 400: unknown customer
failsForGood: failed after 1 of 3 attempts: FailJob: the account was closed
waitsForItsTurn: done after 1 of 3 attempts
takesTooLong: failed after 1 of 1 attempts: ATTEMPT_TIMED_OUT: Job 6 ("takesTooLong"), attempt 1: it ran longer than timeoutMs, 50 ms.
waitsForItsTurn was put off 2 times, which used no attempt.
`,
  "graceful-stop": `
Two handlers run, one job waits.
polite: was let finish
stop() resolved within its grace period and 2 s: true
Abandoned: 0
polite: done, attempts used: 1
stubborn: queued, attempts used: 0
polite: queued, attempts used: 0
`,
  operate: `
Ada's letter: failed, the post office is closed
Paused: 2 due, 1 failed
Cleo does not want hers: cancelled
Once more: requeued
Still paused: 2 due, 0 failed
Sent to Ben
Sent to Ada
After it: 0 due, 0 failed
`,
  schedules: `
One copy has stopped.
A job for each of 4 seconds: true
The first second by hand: it has its job
`,
  "idempotent-http": `
Service: call 1, key INV-7: paid
Attempt 1: the answer was lost
Service: call 2, key INV-7: refused, paid before
Attempt 2: done
Calls: 2, payments: 1
`,
};

describe("each example", () => {
  test.each(Object.entries(outputs))("%s prints what it shows", async (name, expected) => {
    const { code, output } = await startProgram(`${name}/main.ts`, inject("databaseUrl")).exit;
    const [database, ...lines] = output.split("\n");
    expect(lines.join("\n"), output).toBe(expected.trimStart());
    expect(database).toMatch(
      /^Database: PostgreSQL [\d.]+ at \S+ \(DATABASE_URL\), database \w+, dropped at the end$/,
    );
    expect(code).toBe(0);
  });

  test.each(Object.keys(outputs))("%s has at most 80 lines", (name) => {
    const source = readFileSync(new URL(`../../examples/${name}/main.ts`, import.meta.url), "utf8");
    expect(source.trimEnd().split("\n").length).toBeLessThanOrEqual(80);
  });

  test("runs without a PostgreSQL server, on one of its own", async () => {
    const { code, output } = await startProgram("transactional-enqueue/main.ts", undefined).exit;
    const [database, ...lines] = output.split("\n");
    expect(lines.join("\n"), output).toBe(outputs["transactional-enqueue"]?.trimStart());
    expect(database).toMatch(/a throw-away server of this run/);
    expect(code).toBe(0);
  });

  test("says so and fails when the server of DATABASE_URL is out of reach", async () => {
    const nowhere = "postgres://nobody:secret@127.0.0.1:1/none";
    const { code, output } = await startProgram("transactional-enqueue/main.ts", nowhere).exit;
    expect(output).toContain("ECONNREFUSED");
    expect(output).not.toContain("secret");
    expect(code).toBe(1);
  });
});
