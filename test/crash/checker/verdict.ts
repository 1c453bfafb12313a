/** What the checker says of one invariant. */
export interface Verdict {
  /** Such as "I3". */
  readonly id: string;
  readonly claim: string;
  /** How many things were looked at: a claim about nothing proves nothing. */
  readonly checked: number;
  readonly violations: readonly string[];
}

/** Gathers what violates one invariant. */
export interface Inquiry {
  /** Looks at one thing; `violation` says what is wrong with it, if anything is. */
  look(violation: string | undefined | false): void;
  verdict(): Verdict;
}

/** Begins to look into an invariant. */
export function inquire(id: string, claim: string): Inquiry {
  let checked = 0;
  const violations: string[] = [];
  return {
    look(violation) {
      checked += 1;
      if (violation) violations.push(violation);
    },
    verdict: () => ({ id, claim, checked, violations }),
  };
}
