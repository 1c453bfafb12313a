import { boundedHistory } from "./bounded-history.js";
import type { Row, Value } from "./executor.js";
import { integerList, textList } from "./list-literals.js";
import { recordProcessedKeys } from "./record-processed-keys.js";

/**
 * Settling writes how attempts ended, many at once, each under its guard:
 * id, lease version, `status = 'running'` and a lease that has not run out.
 * A row that somebody has locked is not waited for but answered "busy".
 */

/** How a job leaves the hands of its worker. */
export type Settlement =
  /** Done, and the row stays. */
  | { readonly way: "complete" }
  /** Done, and the row goes. */
  | { readonly way: "remove" }
  /** Already done by `commit`; only the row is to go. */
  | { readonly way: "discard" }
  | {
      readonly way: "end";
      /** A job that somebody has asked to cancel becomes neither `queued` again nor `failed`, but `cancelled`. */
      readonly status: "done" | "failed" | "cancelled" | "queued";
      /** When it is due again, in milliseconds from now; null leaves it as it was. */
      readonly delayMs: number | null;
      /** Whether the attempt is given back. */
      readonly isUncounted: boolean;
      /** The attempt's error as JSON, with a line of it as `errorLine`. */
      readonly error: string | null;
      readonly errorLine: string | null;
      /** The result as JSON, for `done`. */
      readonly result: string | null;
    };

/** One job to settle. */
export interface SettleItem {
  readonly id: number;
  readonly leaseVersion: number;
  readonly settlement: Settlement;
  /** Whether its idempotency key is to be recorded with it, if it has one. */
  readonly recordsKey: boolean;
}

/**
 * What became of an item that this statement did not settle as it was told:
 * `busy` locked by somebody, try again · `settled` already ended at this lease
 * version, as after a lost answer · `gone` no such row · `lost` another's now ·
 * `cancelled` settled so, since somebody had asked for it · `was_cancelled` the same, before.
 */
export type SettleAnswer = "busy" | "settled" | "gone" | "lost" | "cancelled" | "was_cancelled";

const WAYS = ["complete", "remove", "discard", "end"] as const;
export type SettleWay = (typeof WAYS)[number];

/** What a settling statement is composed of: it holds a part for each way that occurs in its items. */
export interface SettleShape {
  readonly ways: readonly SettleWay[];
  readonly recordsKeys: boolean;
}

/** Reads the shape of a batch. */
export function shapeOf(items: readonly SettleItem[]): SettleShape {
  return {
    ways: WAYS.filter((way) => items.some((item) => item.settlement.way === way)),
    recordsKeys: items.some((item) => item.recordsKey),
  };
}

/** Locks the items of one way under their guard; an item that it cannot lock has no `job_id`. */
function guarded(way: SettleWay): string {
  const state =
    way === "discard"
      ? `status = 'done'`
      : `status = 'running' and lease_until > statement_timestamp()`;
  // A delete needs the stronger lock; whatever else takes the weaker, which an app's foreign key does not block.
  const strength = way === "remove" || way === "discard" ? "update" : "no key update";
  return `
  ${way}_item as materialized (
    select item.id, item.version, job.id as job_id
    from unnest($${way}_ids::text::bigint[], $${way}_versions::text::int[]) as item(id, version)
    -- Lateral, not a join: under a plan that was made on an empty table a join read the whole table.
    left join lateral (
      select id from {jobs}
      where id = item.id and lease_version = item.version and ${state}
      for ${strength} skip locked
    ) as job on true
  )`;
}

const lockedIds = (way: SettleWay): string =>
  `id = any(array(select job_id from ${way}_item where job_id is not null))`;

const keyColumns = "id, name, idempotency_key, input_hash, result, status";

/**
 * What the items of `end` say, read once: as parameters the texts would be parsed
 * again for each row, which took 2.5 s for 250 errors with a stack.
 */
const said = `
  said as materialized (
    select $end_ids::text::bigint[] as ids, $statuses::text::text[] as statuses, $delays::text::bigint[] as delays,
      $uncounted::text::int[] as uncounted, $errors::text::text[] as errors, $error_lines::text::text[] as error_lines,
      $results::text::text[] as results
  )`;

/** Picks an item's own value for the row at hand. */
const own = (list: string): string =>
  `((select ${list} from said))[array_position((select ids from said), job.id)]`;

/** Whoever asks for a job's end has it, whether or not its worker has noticed: it is neither tried again nor failed. */
const endStatus = `
  case when job.cancel_requested_at is not null and ${own("statuses")} in ('queued', 'failed') then 'cancelled'
    else ${own("statuses")} end`;

const writes: Readonly<Record<SettleWay, string>> = {
  complete: `
    update {jobs} as job
    set status = 'done', outcome = 'done', finished_at = statement_timestamp(), lease_until = null, locked_by = null
    where ${lockedIds("complete")}`,
  remove: `delete from {jobs} as job where ${lockedIds("remove")}`,
  discard: `delete from {jobs} as job where ${lockedIds("discard")}`,
  end: `
    update {jobs} as job
    set status = ${endStatus},
      outcome = nullif(${endStatus}, 'queued'),
      finished_at = case when ${endStatus} <> 'queued' then statement_timestamp() end,
      available_at = coalesce(statement_timestamp() + interval '1 millisecond' * ${own("delays")}, available_at),
      attempts = attempts - ${own("uncounted")},
      lease_until = null, locked_by = null,
      last_error = coalesce(${own("error_lines")}, last_error),
      error_history = case when ${own("errors")} is null then error_history
        else ${boundedHistory} || jsonb_set(${own("errors")}::jsonb, '{at}', to_jsonb(statement_timestamp())) end,
      result = coalesce(${own("results")}::jsonb, result)
    where ${lockedIds("end")}`,
};

/** What a row says that has ended at the item's version. */
const alreadyEnded: Readonly<Record<SettleWay, string>> = {
  complete: "'settled'",
  remove: "'settled'",
  discard: "'busy'",
  end: "case when job.status = 'cancelled' then 'was_cancelled' else 'settled' end",
};

const unsettled = (way: SettleWay): string => `
  select item.id, coalesce((
    select case
      when job.lease_version <> item.version then 'lost'
      when job.status <> 'running' then ${alreadyEnded[way]}
      when job.lease_until > statement_timestamp() then 'busy'
      else 'lost'
    end from {jobs} as job where job.id = item.id
  ), 'gone') as answer
  from ${way}_item as item where item.job_id is null`;

/** Records the keys of what was done. */
function recorded(ways: readonly SettleWay[]): string {
  const sources = ways
    .filter((way) => way !== "discard")
    .map(
      (way) =>
        `select * from ${way}_job where status = 'done' ${way === "remove" ? "or status = 'running'" : ""}`,
    );
  return `recorded as (${recordProcessedKeys(`(${sources.join(" union all ")}) as job`)})`;
}

/** The parts of a statement that settle; their result is `unsettled`. */
export function settleParts({ ways, recordsKeys }: SettleShape): string {
  const parts = ways.flatMap((way) => {
    // Where nobody reads them, rows that come back cost a tenth of a completion's time on the server.
    const isRead = recordsKeys || way === "end";
    return [
      guarded(way),
      `${way}_job as (${writes[way]} ${isRead ? `returning ${keyColumns}` : ""})`,
    ];
  });
  if (ways.includes("end")) parts.unshift(said);
  if (recordsKeys) parts.push(recorded(ways));
  const answers = ways.map(unsettled);
  if (ways.includes("end"))
    answers.push(`
      select id, 'cancelled' from end_job as job
      where status = 'cancelled' and ${own("statuses")} <> 'cancelled'`);
  parts.push(`unsettled as (${answers.join(" union all ")})`);
  return parts.join(",");
}

/** The values that {@link settleParts} names. */
export function settleValues(
  items: readonly SettleItem[],
  processedKeysMs: number | null,
): Record<string, Value> {
  const values: Record<string, Value> = { processed_keys_ms: processedKeysMs };
  for (const way of WAYS) {
    const ofWay = items.filter((item) => item.settlement.way === way);
    values[`${way}_ids`] = integerList(ofWay.map((item) => item.id));
    values[`${way}_versions`] = integerList(ofWay.map((item) => item.leaseVersion));
  }
  const ends = items.flatMap(({ settlement }) => (settlement.way === "end" ? [settlement] : []));
  values["statuses"] = textList(ends.map((end) => end.status));
  values["delays"] = integerList(
    ends.map((end) => (end.delayMs === null ? null : Math.round(end.delayMs))),
  );
  values["uncounted"] = integerList(ends.map((end) => (end.isUncounted ? 1 : 0)));
  values["errors"] = textList(ends.map((end) => end.error));
  values["error_lines"] = textList(ends.map((end) => end.errorLine));
  values["results"] = textList(ends.map((end) => end.result));
  return values;
}

/** Reads which items were not settled, and why, from the rows of a statement that settles. */
export function readUnsettled(rows: readonly Row[]): Map<number, SettleAnswer> {
  return new Map(
    rows.flatMap((row) =>
      typeof row["answer"] === "string" ? [[Number(row["id"]), row["answer"] as SettleAnswer]] : [],
    ),
  );
}
