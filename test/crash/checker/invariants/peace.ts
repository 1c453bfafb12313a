import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Ledger } from "../../ledger/read-ledger.js";
import { MARKER } from "../../programs/surroundings.js";
import type { JobHistory, Start } from "../history.js";
import { inquire, type Verdict } from "../verdict.js";

type Histories = ReadonlyMap<number, JobHistory>;

/** I12: after the last fault everything comes to rest. */
export function nothingIsStranded({ facts, final }: Ledger, histories: Histories): Verdict {
  const inquiry = inquire(
    "I12",
    "after the quiet period nothing runs or waits, no session and no worker's row is left",
  );
  inquiry.look(facts.drainedAtMs === null && "the jobs were not done in the quiet period");
  for (const { jobId, kind, ending, audit } of histories.values()) {
    inquiry.look(
      ending === "open" && `${kind} job ${jobId} is ${JSON.stringify(audit.at(-1)?.new)}`,
    );
  }
  for (const session of final.sessions) inquiry.look(`a session was left: ${session}`);
  return inquiry.verdict();
}

/** L1: a worker that is up takes part again, whatever has become of its connections. */
export function nobodyIsDeaf({ facts }: Ledger): Verdict {
  const inquiry = inquire("L1", "at the end every worker that is up looks for jobs");
  for (const { slot, silentMs } of facts.rollCall) {
    inquiry.look(
      silentMs > MAX_SILENCE_MS && `${slot} has not looked for jobs for ${Math.round(silentMs)} ms`,
    );
  }
  return inquiry.verdict();
}

/** Workers poll once a second. */
const MAX_SILENCE_MS = 5_000;

/** How long a worker's stop may take: a second of grace, then its bound, on a machine that is busy. */
const STOP_BOUND_MS = 1_000 + 2_000 + 2_500;

/** I13: a process ends because we ended it, or because its job did. */
export function exitsAreOurs({ fleet, attempts, facts }: Ledger): Verdict {
  const inquiry = inquire(
    "I13",
    "no process ends but by our doing, and a stop ends with code 0 in its time",
  );
  const poisoned = new Set(
    attempts
      .filter((entry): entry is Start => entry.what === "start" && entry.kind === "poison")
      .map(({ who }) => who),
  );
  // One that is asked to end before it has set up to hear of it just ends.
  const ready = new Set(attempts.flatMap(({ what, who }) => (what === "ready" ? [who] : [])));
  const blocked = longestBlocks(attempts);
  for (const exit of fleet) {
    if (exit.what !== "exit") continue;
    const isExplained = isKilled(exit, poisoned) || isUnready(exit, ready);
    const isWrong = !isExplained && (!endsWell(exit) || isLate(exit, facts, blocked));
    inquiry.look(isWrong && `${exit.who} ${describe(exit)}`);
  }
  return inquiry.verdict();
}

type Exit = Extract<Ledger["fleet"][number], { what: "exit" }>;

const describe = ({ code, signal, because, tookMs }: Exit): string =>
  `ended with ${code ?? signal}, because ${because}, after ${tookMs?.toFixed(0)} ms`;

const isKilled = ({ signal, because, who }: Exit, poisoned: ReadonlySet<string>): boolean =>
  signal === "SIGKILL" && (because === "kill" || poisoned.has(who));

const isUnready = ({ signal, because, who }: Exit, ready: ReadonlySet<string>): boolean =>
  signal === "SIGTERM" && because !== null && !ready.has(who);

const endsWell = ({ code, because }: Exit): boolean =>
  (because === "term" || because === "finished") && code === 0;

/** For how long at most the only thread of each process was kept busy, in milliseconds: meanwhile it hears no signal. */
function longestBlocks(attempts: Ledger["attempts"]): ReadonlyMap<string, number> {
  const longest = new Map<string, number>();
  for (const entry of attempts) {
    if (entry.what !== "event") continue;
    const { blockedMs = 0 } = entry.event as { readonly blockedMs?: number };
    longest.set(entry.who, Math.max(longest.get(entry.who) ?? 0, blockedMs));
  }
  return longest;
}

/** Whether a stop took longer than it may; one that was paused, or whose thread was busy, has an excuse. */
function isLate(
  { who, because, tookMs, atMs }: Exit,
  { struck }: Ledger["facts"],
  blocked: ReadonlyMap<string, number>,
): boolean {
  if (because !== "term" || tookMs === null) return false;
  if (tookMs <= STOP_BOUND_MS + (blocked.get(who) ?? 0)) return false;
  return !struck.some(
    ({ action, struckAtMs }) =>
      action.kind === "pause" &&
      who.startsWith(`${action.slot}.`) &&
      struckAtMs <= atMs &&
      struckAtMs + action.ms >= atMs - tookMs,
  );
}

/**
 * What PostgreSQL may say to a fleet under these faults: sessions ended, locks
 * and time run out, deadlocks between an app's own transactions, and a client that broke off.
 */
const EXPECTED_STATES = new Set([
  "00000",
  "57P01",
  "57P02",
  "57P03",
  "57014",
  "25P03",
  "25P02",
  "40P01",
  "40001",
  "55P03",
  "08006",
  "08P01",
  "53300",
  "25006",
  "57P05",
  "58000",
]);

/** I14: errors of the expected kinds only, and no payload in any log. */
export function logsAreClean({ folder, attempts }: Ledger): Verdict {
  const inquiry = inquire("I14", "only errors that the faults explain, and no payload in any log");
  for (const name of readdirSync(folder)) {
    if (!/^(output-.*|server|attempts-.*)\.(log|jsonl)$/.test(name)) continue;
    const text = readFileSync(join(folder, name), "utf8");
    inquiry.look(text.includes(MARKER) && `${name} holds a payload`);
    if (name.startsWith("output-") && text !== "")
      inquiry.look(`${name} is not empty: ${text.slice(0, 500)}`);
    if (name === "server.log") lookAtErrors(inquiry, text);
  }
  for (const entry of attempts) {
    if (entry.what === "event")
      inquiry.look(JSON.stringify(entry).includes(MARKER) && "an event holds a payload");
  }
  return inquiry.verdict();
}

function lookAtErrors(inquiry: ReturnType<typeof inquire>, log: string): void {
  for (const line of log.split("\n")) {
    const found = /^\S+ \S+ \S+ \[\d+\] .* ([0-9A-Z]{5}) (?:ERROR|FATAL|PANIC): {2}(.*)$/.exec(
      line,
    );
    if (found === null) continue;
    const [, state = "", message = ""] = found;
    inquiry.look(!EXPECTED_STATES.has(state) && `the server said ${state}: ${message}`);
  }
}
