import type { ConnectionKind, FaultAction, FaultKind, Slot } from "../plan/fault.js";
import { isCommit, isRequest } from "../proxy/frames.js";
import type { Direction, Link, Trap, Verdict } from "../proxy/link.js";
import type { Proxy } from "../proxy/proxy.js";

/** The kinds of faults that the proxy commits. */
export const NETWORK_KINDS = [
  "cut",
  "fin",
  "half-open",
  "reply-lost",
  "unsent",
  "settle-unsent",
  "torn",
  "delay",
  "swallow",
  "late",
  "refuse",
  "commit-unsent",
  "commit-unanswered",
  "commit-held",
] as const satisfies readonly FaultKind[];

/** A fault that the proxy commits. */
export type NetworkAction = Extract<FaultAction, { kind: (typeof NETWORK_KINDS)[number] }>;

/** Whether a fault is the proxy's. */
export const isNetworkAction = (action: FaultAction): action is NetworkAction =>
  NETWORK_KINDS.some((kind) => kind === action.kind);

/** The longest delay of a single message, in milliseconds. */
const MAX_DELAY_MS = 300;

/**
 * Makes the function that commits network faults.
 *
 * @param lasting Calls its second argument after so many milliseconds, or when all is healed.
 * @returns A function that tells whether the fault found what it was meant for.
 */
export function networkFaults(
  proxy: Proxy,
  lasting: (ms: number, end: () => void) => void,
): (action: NetworkAction) => boolean {
  const onLink = (slot: Slot, of: ConnectionKind, act: (link: Link) => void): boolean => {
    const links = proxy.links(slot, of);
    const link = links[Math.floor(links.length / 2)];
    if (link === undefined) return false;
    act(link);
    return true;
  };

  /** Arms all of a process's connections for its next COMMIT; the first one springs it. */
  const onCommit = (slot: Slot, verdict: Verdict): boolean => {
    let isSprung = false;
    const trap: Trap = (message, direction) => {
      if (isSprung || direction !== "toServer" || !isCommit(message)) return undefined;
      isSprung = true;
      return verdict;
    };
    const links = proxy.links(slot, "app");
    for (const link of links) link.arm(trap);
    return links.length > 0;
  };

  const impede = (
    link: Link,
    { kind, direction, ms }: Extract<NetworkAction, { kind: "delay" | "swallow" }>,
  ): void => {
    const directions: readonly Direction[] =
      direction === "both" ? ["toServer", "toClient"] : [direction];
    for (const way of directions) {
      if (kind === "swallow") link.swallow(way, true);
      else link.delay(way, Math.min(ms, MAX_DELAY_MS));
    }
    lasting(ms, () => {
      for (const way of directions) {
        link.swallow(way, false);
        link.delay(way, 0);
      }
    });
  };

  const refuse = (slot: Slot, ms: number): boolean => {
    proxy.refuse(slot, true);
    lasting(ms, () => proxy.refuse(slot, false));
    return true;
  };

  return (action) => {
    if (action.kind === "late") {
      proxy.holdUntil(action.slot, action.of, performance.now() + action.ms);
      return true;
    }
    if ("direction" in action) {
      return onLink(action.slot, action.of, (link) => impede(link, action));
    }
    if ("of" in action) return onLink(action.slot, action.of, SUDDEN[action.kind]);
    if (action.kind === "refuse") return refuse(action.slot, action.ms);
    if (action.kind === "commit-held") return onCommit(action.slot, { holdMs: action.ms });
    return onCommit(action.slot, action.kind === "commit-unsent" ? "cut" : "lose-answer");
  };
}

/** What breaks a connection for good, at once or at its next message. */
const SUDDEN = {
  cut: (link: Link) => link.reset(),
  fin: (link: Link) => link.finish(),
  "half-open": (link: Link) => link.halve(),
  "reply-lost": (link: Link) => link.arm(losesNextAnswer),
  unsent: (link: Link) => link.arm(cutsNextStatement),
  "settle-unsent": (link: Link) => link.arm(cutsNextSettlement),
  torn: (link: Link) => link.arm(tearsNextMessage),
};

const losesNextAnswer: Trap = (message, direction) =>
  direction === "toServer" && isRequest(message) ? "lose-answer" : undefined;

const cutsNextStatement: Trap = (message, direction) =>
  direction === "toServer" && isRequest(message) ? "cut" : undefined;

/** Statements that settle are named after the ways in which they do; what is only to be discarded is done already. */
const cutsNextSettlement: Trap = (message, direction, statement) =>
  direction === "toServer" &&
  isRequest(message) &&
  /(^|_)(complete|remove|end)(_|$)/.test(statement)
    ? "cut"
    : undefined;

const tearsNextMessage: Trap = (_message, direction) =>
  direction === "toClient" ? "tear" : undefined;
