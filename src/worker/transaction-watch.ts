import { after } from "./clock.js";

/** How long the news of a transaction's end may travel, in milliseconds. */
const NEWS_MS = 1_000;

/**
 * Watches a transaction whose connection may die without a word.
 *
 * The server ends a transaction that falls silent, since we have limited its
 * pauses. If the way to the client is cut, the client never hears of it, and waits
 * for its answer as long as the network believes in the connection. So another
 * connection asks from time to time whether the transaction is over.
 *
 * @returns A function that ends the watching.
 */
export function watchTransaction(options: {
  readonly everyMs: number;
  readonly isOver: () => Promise<boolean>;
  readonly giveUp: (reason: Error) => void;
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
    if (seemsOver && wasOver)
      return giveUp(
        new Error("The connection of commit was lost: the server has ended its transaction."),
      );
    wasOver = seemsOver;
    arm(seemsOver ? NEWS_MS : everyMs);
  };

  arm(everyMs);
  return () => {
    isStopped = true;
    callOff();
  };
}
