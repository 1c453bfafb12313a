/** A test, by its file and by the name that it has there. */
export interface CoveringTest {
  /** Relative to `test/`. */
  readonly file: string;
  /** The name as it stands in the file, with its placeholders. */
  readonly name: string;
}

/** A fault that users of some queue on PostgreSQL, or of what such queues stand on, have met. */
export interface FieldFault {
  /** Our own label, which stays with the fault. */
  readonly id: string;
  /** What goes wrong, in one line. */
  readonly fault: string;
  /** What is right instead. */
  readonly outcome: string;
  /** Public reports, as `owner/repository#number` or as an address. */
  readonly seen: readonly string[];
  /** The tests that hold the outcome; none only where `reason` says why. */
  readonly tests: readonly CoveringTest[];
  /** Why it cannot happen here, or with which feature it comes, or what of it no test holds. */
  readonly reason?: string;
}

/** Names tests of one file. */
export const testsIn = (file: string, ...names: readonly string[]): readonly CoveringTest[] =>
  names.map((name) => ({ file, name }));
