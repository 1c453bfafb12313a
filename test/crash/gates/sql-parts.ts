/** A part of a statement by its name: a common table expression, or the statement's own end. */
export interface SqlPart {
  readonly name: string;
  readonly text: string;
}

/**
 * Takes a statement apart into its common table expressions and what follows them.
 *
 * Brackets are counted, so that an expression inside of one stays with it.
 */
export function partsOf(sql: string): SqlPart[] {
  const text = sql.replaceAll(/\s+/g, " ").trim();
  if (!/^with /i.test(text)) return [{ name: "", text }];
  const parts: SqlPart[] = [];
  let rest = text.slice("with ".length);
  for (;;) {
    const head = /^,? ?(\w+) as (?:materialized )?\(/.exec(rest);
    if (head === null) return [...parts, { name: "", text: rest.trim() }];
    const from = head[0].length;
    const length = bracketed(rest.slice(from));
    parts.push({ name: head[1] ?? "", text: rest.slice(from, from + length).trim() });
    rest = rest.slice(from + length + 1).trim();
  }
}

/** How far it is to the bracket that closes what is open. */
function bracketed(text: string): number {
  let depth = 1;
  let isQuoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at];
    if (sign === "'") isQuoted = !isQuoted;
    if (isQuoted) continue;
    if (sign === "(") depth += 1;
    if (sign === ")") depth -= 1;
    if (depth === 0) return at;
  }
  throw new Error(`Brackets do not match: ${text.slice(0, 200)}`);
}
