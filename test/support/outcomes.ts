import { z } from "zod";
import { defineJob } from "../../src/registry/define-job.js";
import { type HeldJob, holdJob } from "../../src/worker/held-job.js";
import { createSettleBuffer, type SettleBuffer } from "../../src/worker/settle-buffer.js";
import { claimedJob } from "./claims.js";

const definition = defineJob({ payload: z.object({}) });

/** A job whose attempt has ended, and whose outcome is to be written. */
export function heldJob(id: number): HeldJob {
  const held = holdJob(claimedJob({ id }), definition, 0);
  held.phase = "ending";
  return held;
}

/** A buffer that gathers outcomes and tells nobody of them. */
export const quietBuffer = (): SettleBuffer =>
  createSettleBuffer({
    retention: "keep",
    isBusy: () => false,
    onSettled: () => undefined,
    onLost: () => undefined,
    emit: undefined,
  });
