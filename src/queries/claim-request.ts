import type { TableNames } from "../schema/table-names.js";
import type { Value } from "./executor.js";
import { integerList, textList } from "./list-literals.js";

/** One queue and priority to take jobs from, in the order of the list. */
export interface ClaimPair {
  readonly queue: string;
  readonly priority: number;
  /** Only rows above this place are looked at; null: from the beginning. */
  readonly floor: Place | null;
}

/** A place in the order of jobs of one queue and priority. */
export interface Place {
  /** Microseconds since 1970 on the server's clock. */
  readonly atUs: number;
  readonly id: number;
}

/** How a sweep looks below the floors: for late commits and for expired leases. */
export interface Sweep {
  /** How far back from now it looks, in milliseconds; null: to the beginning. */
  readonly reachMs: number | null;
  /** Whether it gives way when another worker is sweeping. */
  readonly exclusive: boolean;
  /** How many jobs it may take whose lease ran out twice or more. */
  readonly suspects: number;
}

/** What one claim asks for. */
export interface ClaimRequest {
  readonly workerId: string;
  readonly pairs: readonly ClaimPair[];
  readonly names: readonly string[];
  /** Slots that stand free: any job may take one. */
  readonly free: number;
  /** Jobs to fetch ahead beyond these: only such as have never been tried. */
  readonly ahead: number;
  readonly leaseMs: number;
  /** Leases of the names that differ from `leaseMs`, in milliseconds. */
  readonly leaseMsByName: Readonly<Record<string, number>>;
  readonly sweep: Sweep | undefined;
  /** Whether to look at one job more than is wanted, to see whether it is passed over. */
  readonly peeks: boolean;
  /** Whether the last claim left due jobs behind: this one is likely to find as many as it asks for. */
  readonly hasBacklog: boolean;
  /** Whether it is to be answered as soon as can be, with jobs for the free slots and nothing else; then `ahead` is 0 and `sweep` undefined. */
  readonly isPrompt: boolean;
}

const asked = `
  select queue, priority, turn,
    coalesce('epoch'::timestamptz + floor_us * interval '1 microsecond', '-infinity') as floor_at, floor_id
  from unnest($queues::text::text[], $priorities::text::smallint[], $floors_us::text::bigint[], $floor_ids::text::bigint[])
    with ordinality as pair(queue, priority, floor_us, floor_id, turn)`;

/** The pairs to look at, each with the place it is looked at from. */
export const requestedPairs = `request as materialized (${asked})`;

const paused = "select queue from {controls} where paused_at is not null";

/** A query for those of them whose queue nobody has paused. */
export const unpausedOnly = `select * from (${asked}) as asked where queue not in (${paused})`;

/** The same as `request`, beside what {@link pausedTurns} asks for. */
export const unpausedPairs = `
  asked as materialized (${asked}),
  paused as materialized (${paused}),
  request as materialized (select * from asked where queue not in (select queue from paused))`;

/** Which pairs are left out, by their turns; null: none. */
export const pausedTurns = `(select string_agg(turn::text, ',') from asked where queue in (select queue from paused))`;

/** The values that {@link requestedPairs} names. */
export function pairValues(pairs: readonly ClaimPair[]): Record<string, Value> {
  return {
    queues: textList(pairs.map((pair) => pair.queue)),
    priorities: integerList(pairs.map((pair) => pair.priority)),
    floors_us: integerList(pairs.map((pair) => pair.floor?.atUs ?? null)),
    floor_ids: integerList(pairs.map((pair) => pair.floor?.id ?? 0)),
  };
}

/** The values that the parts of a claim name (`claim-jobs.ts`). */
export function claimValues(request: ClaimRequest, tables: TableNames): Record<string, Value> {
  const { pairs, sweep } = request;
  return {
    ...pairValues(pairs),
    names: textList(request.names),
    worker: request.workerId,
    lease_ms: request.leaseMs,
    leases: JSON.stringify(request.leaseMsByName),
    wanted: request.free + request.ahead,
    seen: request.free + request.ahead + (request.peeks ? 1 : 0),
    free: request.free,
    has_backlog: request.hasBacklog,
    exclusive: sweep?.exclusive ?? false,
    suspects: sweep?.suspects ?? 0,
    reach_ms: sweep?.reachMs ?? null,
    sweep_lock: tables.sweepLock,
  };
}
