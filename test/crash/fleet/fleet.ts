import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { FleetEntry } from "../ledger/entries.js";
import type { Journal } from "../ledger/journal.js";
import type { Slot } from "../plan/fault.js";
import type { Level } from "../plan/level.js";
import { slots } from "../plan/make-plan.js";
import { type Contender, SURROUNDINGS, type Surroundings } from "../programs/surroundings.js";

/** The processes of a run. What ends is started again until the fleet is told to stop. */
export interface Fleet {
  /** Starts every process. */
  start(): void;
  /** Ends a process for good or ill; false when it is not running. */
  signal(slot: Slot, signal: NodeJS.Signals, downMs?: number): boolean;
  /** The workers that are up. */
  workers(): readonly Slot[];
  /** The process that is up at a place, with its incarnation. */
  who(slot: Slot): string | undefined;
  /** Whether every producer has enqueued all that it was to. */
  producersAreDone(): boolean;
  /** Tells all workers to stop and waits until they have; kills what does not. */
  stop(limitMs: number): Promise<void>;
  /** Ends everything at once, as when the run itself has failed. */
  abandon(): void;
  /** How many processes were started so far. */
  spawns(): number;
}

/** What a fleet is made of. */
export interface FleetOptions {
  readonly level: Level;
  readonly seed: number;
  readonly folder: string;
  readonly bundle: string;
  readonly startedAtMs: number;
  readonly urlFor: (slot: Slot) => Promise<string>;
  readonly journal: Journal<FleetEntry>;
  /** Whose workers they are. @default "drizzle-queue" */
  readonly contender?: Contender | undefined;
  /** The processes; those that the level names by default. */
  readonly slots?: readonly Slot[];
}

interface Member {
  readonly slot: Slot;
  incarnation: number;
  child: ChildProcess | undefined;
  /** What we did to end it. */
  because: "kill" | "term" | null;
  /** Whether this process was asked to stop. */
  isTermed: boolean;
  askedAtMs: number;
  downMs: number;
  isDone: boolean;
}

const clockShift = fileURLToPath(new URL("../programs/clock-shift.js", import.meta.url));

/** A process is to tell what is left in it without garbage; that counting objects is experimental is no news. */
const NODE_FLAGS = ["--expose-gc", "--disable-warning=ExperimentalWarning"];

/** How long a process that ended by itself stays down, in milliseconds. */
const USUAL_DOWN_MS = 300;

/** Half an hour, forth or back, for every other process. */
const SHIFTS_MS = [0, 1_800_000, 0, -1_800_000];
const ZONES = ["UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Chatham"];

/** Creates a fleet that has not started. */
export function createFleet(options: FleetOptions): Fleet {
  const { level, folder, journal } = options;
  const members = new Map<Slot, Member>();
  const all = options.slots ?? [...slots("w", level.workers), ...slots("p", level.producers)];
  for (const slot of all) members.set(slot, newMember(slot));
  let isStopping = false;
  let spawns = 0;

  const launch = async (member: Member): Promise<void> => {
    const url = await options.urlFor(member.slot);
    if (isStopping || member.child !== undefined) return;
    member.incarnation += 1;
    spawns += 1;
    const who = `${member.slot}.${member.incarnation}`;
    const child = spawnMember(options, member, who, url);
    member.child = child;
    member.because = null;
    member.isTermed = false;
    journal.write({ what: "spawn", who, atMs: Date.now() });
    child.once("exit", (code, signal) => ended(member, who, { code, signal }));
  };

  const ended = (
    member: Member,
    who: string,
    how: { readonly code: number | null; readonly signal: NodeJS.Signals | null },
  ): void => {
    const isFinished = member.slot.startsWith("p") && how.code === 0;
    // A kill may come a moment too late for a process that is at the end of its stop.
    const isStopped = member.isTermed && how.signal !== "SIGKILL";
    const because = isFinished ? "finished" : isStopped ? "term" : member.because;
    const tookMs = member.because === null ? null : performance.now() - member.askedAtMs;
    journal.write({ what: "exit", who, ...how, because, tookMs, atMs: Date.now() });
    member.child = undefined;
    if (isFinished) member.isDone = true;
    if (!isStopping && !member.isDone) setTimeout(() => void launch(member), member.downMs);
    member.downMs = USUAL_DOWN_MS;
  };

  const signal: Fleet["signal"] = (slot, name, downMs = USUAL_DOWN_MS) => {
    const member = members.get(slot);
    // Who has been killed is not asked to end any more, though its end is not yet heard of.
    if (member?.child === undefined || member.because === "kill") return false;
    const who = `${slot}.${member.incarnation}`;
    if (name === "SIGKILL" || name === "SIGTERM") {
      if (member.because === null) member.askedAtMs = performance.now();
      member.because = name === "SIGKILL" ? "kill" : "term";
      if (name === "SIGTERM") member.isTermed = true;
      member.downMs = downMs;
    }
    journal.write({ what: "signal", who, signal: name, atMs: Date.now() });
    return member.child.kill(name);
  };

  const running = (): Member[] => [...members.values()].filter((member) => member.child);

  return {
    start() {
      for (const member of members.values()) void launch(member);
    },
    signal,
    workers: () => running().flatMap(({ slot }) => (slot.startsWith("w") ? [slot] : [])),
    who(slot) {
      const member = members.get(slot);
      return member?.child === undefined ? undefined : `${slot}.${member.incarnation}`;
    },
    producersAreDone: () =>
      [...members.values()].every((member) => !member.slot.startsWith("p") || member.isDone),
    async stop(limitMs) {
      isStopping = true;
      const exits = running().map(
        ({ child }) => new Promise((resolve) => child?.once("exit", resolve)),
      );
      for (const { slot } of running()) signal(slot, "SIGTERM");
      const limit = setTimeout(() => running().map(({ child }) => child?.kill("SIGKILL")), limitMs);
      await Promise.all(exits);
      clearTimeout(limit);
    },
    abandon() {
      isStopping = true;
      for (const { child } of running()) child?.kill("SIGKILL");
    },
    spawns: () => spawns,
  };

  function newMember(slot: Slot): Member {
    return {
      slot,
      incarnation: 0,
      child: undefined,
      because: null,
      isTermed: false,
      askedAtMs: 0,
      downMs: USUAL_DOWN_MS,
      isDone: false,
    };
  }

  function spawnMember(
    { bundle, seed, startedAtMs, contender = "drizzle-queue" }: FleetOptions,
    { slot }: Member,
    who: string,
    url: string,
  ): ChildProcess {
    const index = Number(slot.slice(1));
    const role = slot.startsWith("w") ? "worker" : "producer";
    const given: Surroundings = {
      who,
      role,
      index,
      url,
      folder,
      level,
      seed,
      startedAtMs,
      contender,
    };
    const output = openSync(join(folder, `output-${slot}.log`), "a");
    const child = spawn(process.execPath, [...NODE_FLAGS, "--import", clockShift, bundle], {
      env: {
        ...process.env,
        [SURROUNDINGS]: JSON.stringify(given),
        CRASH_CLOCK_SHIFT_MS: String(SHIFTS_MS[index % SHIFTS_MS.length]),
        TZ: ZONES[index % ZONES.length],
      },
      stdio: ["ignore", output, output],
    });
    closeSync(output);
    return child;
  }
}
