/**
 * Shifts the date of a process, as a badly kept machine's would be; loaded with `--import`.
 *
 * Only the date: clocks that measure durations do not jump.
 */
const shiftMs = Number(process.env.CRASH_CLOCK_SHIFT_MS ?? 0);
const TrueDate = Date;

globalThis.Date = class extends TrueDate {
  constructor(...given) {
    if (given.length === 0) super(TrueDate.now() + shiftMs);
    else super(...given);
  }
  static now() {
    return TrueDate.now() + shiftMs;
  }
};
