/** The room that a worker has for jobs. */
export interface ClaimRoom {
  /** Slots without a job. */
  readonly free: number;
  /** Jobs that may wait beyond the slots. */
  readonly ahead: number;
  /** Whether a suspect is held that has not run for long yet. */
  readonly holdsSuspect: boolean;
}
