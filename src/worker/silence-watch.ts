import { after } from "./clock.js";

/** How long the news of an end may travel, in milliseconds. */
const NEWS_MS = 1_000;

/**
 * Watches over an answer whose connection may die without a word.
 *
 * If the way to the client is cut, the client never hears how its statement or its
 * transaction ended, and waits for as long as the network believes in the connection.
 * So another connection asks from time to time whether it is over.
 *
 * @returns A function that ends the watching.
 */
export function watchSilence(options: {
  readonly everyMs: number;
  readonly isOver: () => Promise<boolean>;
  readonly giveUp: () => void;
}): () => void {
  const { everyMs, isOver, giveUp } = options;
  let isStopped = false;
  let wasOver = false;
  let callOff = (): void => {};

  const arm = (delayMs: number): void => {
    callOff = after(delayMs, () => void look());
  };
  const look = async (): Promise<void> => {
    // Without an answer nothing is known; the connection that was asked reports its own losses.
    const seemsOver = await isOver().catch(() => false);
    if (isStopped) return;
    if (seemsOver && wasOver) return giveUp();
    wasOver = seemsOver;
    arm(seemsOver ? NEWS_MS : everyMs);
  };

  arm(everyMs);
  return () => {
    isStopped = true;
    callOff();
  };
}
