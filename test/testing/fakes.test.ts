import { createQueue, defineJob, defineJobs, type PgDatabase } from "drizzle-queue";
import { runHandler } from "drizzle-queue/testing";
import { describe, expect, test, vi } from "vitest";
import { z } from "zod";

const queue = createQueue({ jobs: defineJobs({ work: defineJob({ payload: z.object({}) }) }) });

type Run = (tx: object) => Promise<unknown>;

const committing = (transaction: unknown, effect: () => unknown = () => undefined) =>
  runHandler({
    queue,
    db: { transaction } as unknown as PgDatabase,
    name: "work",
    payload: {},
    handlers: { work: ({ commit }) => commit(effect) },
  });

describe("a fake is refused, even if the handler catches that, when its transaction", () => {
  test.each<[string, unknown, string]>([
    ["is an automatic mock, so that no effect runs", vi.fn<() => void>(), "called run 0 times"],
    [
      "runs the effect twice",
      async (run: Run) => {
        await run({});
        await run({}).catch(() => undefined);
      },
      "called run 2 times",
    ],
    [
      "does not wait for the effect",
      async (run: Run) => {
        void run({}).catch(() => undefined);
      },
      "resolved where run(tx) had rejected, or not ended",
    ],
    [
      "catches the effect's error",
      (run: Run) => run({}).catch(() => undefined),
      "resolved where run(tx) had rejected, or not ended",
    ],
  ])("%s", async (title, transaction, message) => {
    const effect = async (): Promise<void> => {
      await new Promise((resolve) => {
        setTimeout(resolve, 5);
      });
      if (title.startsWith("catches")) throw new Error("no paper");
    };
    const running = committing(transaction, effect);
    await expect(running).rejects.toMatchObject({ code: "INVALID_OPTION" });
    await expect(running).rejects.toThrow(message);
    await expect(running).rejects.toThrow("must call run(tx) once and await it");
  });
});

test("the shortest fake will do, and is sent nothing that the effect does not send", async () => {
  const execute = vi.fn<() => void>();
  const end = await committing((run: Run) => run({ execute }));
  expect(end).toMatchObject({ kind: "done", isCommitted: true });
  expect(execute).not.toHaveBeenCalled();
});

test("a mock of everything, which answers nothing, will do too", async () => {
  const everything = new Proxy({}, { get: () => vi.fn<() => void>() });
  const end = await committing((run: Run) => run(everything));
  expect(end).toMatchObject({ kind: "done", isCommitted: true });
});

test("an error of a fake is an error of the attempt, whether it comes before or after the effect", async () => {
  const error = new Error("no connection");
  const before = await committing(() => Promise.reject(error));
  expect(before).toMatchObject({ kind: "retry", error });
  const after = await committing((run: Run) => run({}).then(() => Promise.reject(error)));
  expect(after).toMatchObject({ kind: "retry", error });
});
