import type { PostgresServer } from "../../../examples/support/postgres-server.js";
import type { Fault, FaultAction, FaultPlan } from "../plan/fault.js";
import type { Proxy } from "../proxy/proxy.js";
import type { Fleet } from "./fleet.js";
import { isNetworkAction, type NetworkAction, networkFaults } from "./network-faults.js";
import {
  askForEnd,
  crowd,
  holdSnapshot,
  queueAgain,
  roleSettings,
  terminateSessions,
  turnReadOnly,
} from "./server-faults.js";

/** Commits the faults of a plan. */
export interface Nemesis {
  /** Resolves when every fault has struck and been healed, or could not strike any more. */
  run(): Promise<void>;
  /** Heals whatever still is. */
  heal(): Promise<void>;
  /** What has struck so far. */
  log(): readonly StruckFault[];
  /** When the server took connections again after each of its restarts, in milliseconds since 1970. */
  restarted(): readonly number[];
}

/** A fault of the plan that has struck. */
export interface StruckFault extends Fault {
  /** Milliseconds since 1970. */
  readonly struckAtMs: number;
}

/** What a nemesis acts on. */
export interface NemesisOptions {
  readonly plan: FaultPlan;
  readonly fleet: Fleet;
  readonly proxy: Proxy;
  readonly server: PostgresServer;
  readonly startedOnClock: number;
  /** After this, what has not struck is given up. */
  readonly untilMs: number;
}

/** A fault whose target is down, or has no such connection, is tried again after this, in milliseconds. */
const AGAIN_MS = 100;
/** The operator's calls follow each other at this distance, in milliseconds, however many wait for a job that suits them. */
const OPERATOR_MS = 250;

/** What the server is like for a while. */
const PHASES = {
  "read-only": turnReadOnly,
  "role-settings": roleSettings,
  "held-snapshot": holdSnapshot,
  crowd,
} as const;

type Phase = Extract<FaultAction, { kind: keyof typeof PHASES }>;

const isPhase = (action: FaultAction): action is Phase => action.kind in PHASES;

type OtherAction = Exclude<FaultAction, NetworkAction>;

/** Creates the nemesis of one run. */
export function createNemesis(options: NemesisOptions): Nemesis {
  const { plan, fleet, proxy, server } = options;
  const log: StruckFault[] = [];
  const restartedAtMs: number[] = [];
  const healings = new Map<() => unknown, NodeJS.Timeout>();
  let restarts: Promise<void> = Promise.resolve();
  let operator: Promise<unknown> = Promise.resolve();
  const elapsedMs = (): number => performance.now() - options.startedOnClock;

  /** Calls `end` after `ms`, or at the heal, whichever comes first. */
  const lasting = (ms: number, end: () => unknown): void => {
    const timer = setTimeout(() => {
      healings.delete(end);
      end();
    }, ms);
    healings.set(end, timer);
  };

  const strikeNetwork = networkFaults(proxy, lasting);

  const restart = (downMs: number): true => {
    restarts = restarts.then(async () => {
      await server.stop("immediate");
      await pauseFor(downMs);
      await server.start();
      restartedAtMs.push(Date.now());
    });
    return true;
  };

  const term = ({ slot, times, downMs }: Extract<FaultAction, { kind: "term" }>): boolean => {
    if (!fleet.signal(slot, "SIGTERM", downMs)) return false;
    if (times === 2) setTimeout(() => fleet.signal(slot, "SIGTERM"), 30);
    return true;
  };

  const pause = ({ slot, ms }: Extract<FaultAction, { kind: "pause" }>): boolean => {
    if (!fleet.signal(slot, "SIGSTOP")) return false;
    lasting(ms, () => fleet.signal(slot, "SIGCONT"));
    return true;
  };

  const onServer = async (
    ms: number,
    begin: (url: string) => Promise<() => Promise<void>>,
  ): Promise<boolean> => {
    const end = await begin(server.url);
    lasting(ms, end);
    return true;
  };

  const operate = (act: () => Promise<boolean>): Promise<boolean> => {
    const isOver = (): boolean => elapsedMs() >= options.untilMs;
    const asked = operator.then(() => !isOver() && act());
    operator = asked.catch(() => false).then(() => (isOver() ? undefined : pauseFor(OPERATOR_MS)));
    return asked;
  };

  const strikeOther = (action: OtherAction): boolean | Promise<boolean> => {
    if (isPhase(action)) return onServer(action.ms, PHASES[action.kind]);
    switch (action.kind) {
      case "kill":
        return fleet.signal(action.slot, "SIGKILL", action.downMs);
      case "term":
        return term(action);
      case "pause":
        return pause(action);
      case "restart":
        return restart(action.downMs);
      case "terminate":
        return terminateSessions(server.url, action.sessions);
      case "cancel":
        return operate(() => askForEnd(server.url, action));
      case "requeue":
        return operate(() => queueAgain(server.url));
    }
  };

  /** @returns whether it struck. */
  const strike = async (action: FaultAction): Promise<boolean> => {
    try {
      return await (isNetworkAction(action) ? strikeNetwork(action) : strikeOther(action));
    } catch {
      // The server is down just now, and a fault of the server has to wait until it is not.
      return false;
    }
  };

  const commit = async (fault: Fault): Promise<void> => {
    await pauseFor(fault.atMs - elapsedMs());
    while (elapsedMs() < options.untilMs) {
      if (await strike(fault.action)) {
        log.push({ ...fault, struckAtMs: Date.now() });
        return;
      }
      await pauseFor(AGAIN_MS);
    }
  };

  return {
    async run() {
      await Promise.all(plan.faults.map(commit));
      await restarts;
    },
    async heal() {
      await restarts;
      for (const [end, timer] of healings) {
        clearTimeout(timer);
        await end();
      }
      healings.clear();
    },
    log: () => log,
    restarted: () => restartedAtMs,
  };
}

const pauseFor = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));
