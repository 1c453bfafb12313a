import type { Settlement } from "../../../src/queries/settle-jobs.js";
import {
  type Actor,
  cancels,
  claims,
  commitSteps,
  expires,
  type Hold,
  releases,
  renews,
  requeues,
  type Session,
  type Step,
  settles,
} from "./actor.js";
import { enqueueSteps } from "./producer.js";

/** Who meets at one job, or at one key. */
export interface Scenario {
  readonly name: string;
  /** The kind of the job that is there at the start, held by the first session; null: none is. */
  readonly job: "effect" | "settle" | null;
  /** Whose the sessions are; a process may have several. */
  readonly who: readonly string[];
  /** Makes the actors; `held` is the job at the start. */
  readonly actors: (sessions: readonly Session[], held: Hold, key: string) => Actor[];
}

const retry: Settlement = {
  way: "end",
  status: "queued",
  delayMs: 0,
  isUncounted: false,
  error: JSON.stringify({ attempt: 1, at: null, name: "Error", message: "again" }),
  errorLine: "Error: again",
  result: null,
};

const SETTLEMENTS: Readonly<Record<string, Settlement>> = {
  complete: { way: "complete" },
  remove: { way: "remove" },
  retry,
  release: { ...retry, isUncounted: true, error: null, errorLine: null },
  fail: { ...retry, status: "failed", delayMs: null },
};

const idle = (): Hold => ({ jobId: 0, version: 0, guard: "none" });

/** Time passes, and another worker takes the job over and commits. */
function successor(session: Session, names: readonly string[]): Step[] {
  const hold = idle();
  return [expires(session), claims(session, hold, names), ...commitSteps(session, hold)];
}

/** The same with a worker that settles. */
function settlingSuccessor(session: Session, settlement: Settlement): Step[] {
  const hold = idle();
  return [
    expires(session),
    claims(session, hold, ["settle"]),
    renews(session, hold),
    settles(session, hold, settlement),
  ];
}

const actor = (name: string, steps: readonly Step[]): Actor => ({ name, steps });

type At = (index: number) => Session;

const at =
  (sessions: readonly Session[]): At =>
  (index) => {
    const session = sessions[index];
    if (session === undefined) throw new RangeError(`There is no session ${index}.`);
    return session;
  };

/** Two actors: all orders are walked. */
export const PAIRS: readonly Scenario[] = [
  {
    name: "a commit, and the commit of whoever takes over",
    job: "effect",
    who: ["first", "second"],
    actors: (sessions, held) => [
      actor("holder", commitSteps(at(sessions)(0), held)),
      actor("successor", successor(at(sessions)(1), ["effect"])),
    ],
  },
  {
    name: "a commit with its renewals, and whoever takes over",
    job: "effect",
    who: ["first", "second", "first"],
    actors: (sessions, held) => [
      actor("holder", commitSteps(at(sessions)(0), held)),
      actor("keeper and successor", [
        renews(at(sessions)(2), held),
        ...successor(at(sessions)(1), ["effect"]).slice(0, 2),
        renews(at(sessions)(2), held),
      ]),
    ],
  },
  ...Object.entries(SETTLEMENTS).map(
    ([name, settlement]): Scenario => ({
      name: `${name}, and whoever takes over`,
      job: "settle",
      who: ["first", "second"],
      actors: (sessions, held) => [
        actor("holder", [
          renews(at(sessions)(0), held),
          settles(at(sessions)(0), held, settlement),
        ]),
        actor("successor", settlingSuccessor(at(sessions)(1), { way: "complete" })),
      ],
    }),
  ),
  {
    name: "a release of strays, and whoever takes over",
    job: "settle",
    who: ["first", "second"],
    actors: (sessions) => [
      actor("holder", [releases(at(sessions)(0)), releases(at(sessions)(0))]),
      actor("successor", settlingSuccessor(at(sessions)(1), { way: "complete" })),
    ],
  },
  {
    name: "a commit, and an operator who cancels",
    job: "effect",
    who: ["first", "second"],
    actors: (sessions, held) => [
      actor("holder", commitSteps(at(sessions)(0), held)),
      actor("operator and successor", [
        cancels(at(sessions)(1), held),
        ...successor(at(sessions)(1), ["effect"]),
      ]),
    ],
  },
  {
    name: "retry, and an operator who cancels and queues again",
    job: "settle",
    who: ["first", "second"],
    actors: (sessions, held) => [
      actor("holder", [
        renews(at(sessions)(0), held),
        settles(at(sessions)(0), held, retry),
        renews(at(sessions)(0), held),
        settles(at(sessions)(0), held, { way: "complete" }),
      ]),
      actor("operator and successor", [
        cancels(at(sessions)(1), held),
        expires(at(sessions)(1)),
        cancels(at(sessions)(1), held),
        requeues(at(sessions)(1), held),
        ...settlingSuccessor(at(sessions)(1), { way: "complete" }).slice(1),
      ]),
    ],
  },
  {
    name: "two enqueues of one key",
    job: null,
    who: ["first", "second"],
    actors: (sessions, _held, key) => [
      actor("producer", enqueueSteps(at(sessions)(0), key)),
      actor("other producer", enqueueSteps(at(sessions)(1), key)),
    ],
  },
];

/** Three actors: orders are drawn at random. */
export const TRIPLES: readonly Scenario[] = [
  {
    name: "a commit, and two who take over",
    job: "effect",
    who: ["first", "second", "third"],
    actors: (sessions, held) => [
      actor("holder", commitSteps(at(sessions)(0), held)),
      actor("second", successor(at(sessions)(1), ["effect"])),
      actor("third", successor(at(sessions)(2), ["effect"])),
    ],
  },
  {
    name: "two who settle, and a third",
    job: "settle",
    who: ["first", "second", "third"],
    actors: (sessions, held) => [
      actor("holder", [renews(at(sessions)(0), held), settles(at(sessions)(0), held, retry)]),
      actor("second", settlingSuccessor(at(sessions)(1), retry)),
      actor("third", settlingSuccessor(at(sessions)(2), { way: "remove" })),
    ],
  },
  {
    name: "one who fails it, an operator who queues it again, and another who takes over",
    job: "settle",
    who: ["first", "second", "third"],
    actors: (sessions, held) => [
      actor("holder", [
        settles(at(sessions)(0), held, { ...retry, status: "failed", delayMs: null }),
        settles(at(sessions)(0), held, { way: "complete" }),
      ]),
      actor("operator", [
        requeues(at(sessions)(1), held),
        cancels(at(sessions)(1), held),
        requeues(at(sessions)(1), held),
      ]),
      actor("successor", settlingSuccessor(at(sessions)(2), { way: "complete" })),
    ],
  },
  {
    name: "two enqueues of one key, and a worker that deletes what is done",
    job: null,
    who: ["first", "second", "third"],
    actors(sessions, _held, key) {
      const hold = idle();
      const worker = at(sessions)(2);
      return [
        actor("producer", enqueueSteps(at(sessions)(0), key)),
        actor("other producer", enqueueSteps(at(sessions)(1), key)),
        actor("worker", [
          claims(worker, hold, ["keyed"]),
          ...commitSteps(worker, hold),
          settles(worker, hold, { way: "discard" }),
        ]),
      ];
    },
  },
];
