import { readFileSync } from "node:fs";

/** The kernel counts processor time in ticks of 10 ms. */
const TICK_MS = 10;

/** Processor time of a process and of its children, living and ended. */
export function processCpuMs(pid: number): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(/\s+/);
  let ticks = ticksOf(pid);
  for (const child of children) if (child !== "") ticks += ticksOf(Number(child));
  return ticks * TICK_MS;
}

/** Of one process, and of those of its children that have ended. */
function ticksOf(pid: number): number {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    // It has ended meanwhile: then its parent counts it.
    return 0;
  }
  // The second field is the name, in parentheses, and may hold anything.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields.slice(11, 15).map(Number);
  return user + system + endedUser + endedSystem;
}
