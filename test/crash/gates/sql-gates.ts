import { partsOf, type SqlPart } from "./sql-parts.js";

/** Statement texts by the application that sent them, as they went over the wire. */
export type SentStatements = ReadonlyMap<string, ReadonlySet<string>>;

const TABLES = [
  "queue_jobs",
  "queue_processed_keys",
  "queue_workers",
  "queue_controls",
  "queue_schedules",
];

/** Our statements among those that were sent: those that speak of our tables. */
function ours(sent: SentStatements): { readonly application: string; readonly sql: string }[] {
  return [...sent].flatMap(([application, texts]) =>
    [...texts]
      .filter((sql) => TABLES.some((table) => sql.includes(`"${table}"`)))
      .map((sql) => ({ application, sql })),
  );
}

/** How many statements of ours were sent, so that a gate that saw none is noticed. */
export const countOurs = (sent: SentStatements): number => ours(sent).length;

/** Names that stand in the place of a table and need no schema: PostgreSQL's own functions, and aliases in `for update of`. */
const FREE = /^(\(|lateral\b|unnest\(|rows\b|jsonb_\w+\(|pg_\w+\(|only\b)/;

/** Every table is named with its schema: whoever can create objects in the search path could else put theirs before ours. */
export function unqualifiedNames(sent: SentStatements): string[] {
  return ours(sent).flatMap(({ application, sql }) => {
    const parts = partsOf(sql);
    const own = new Set(parts.map(({ name }) => name));
    const found = [
      ...sql.replaceAll(/\s+/g, " ").matchAll(/\b(?:from|join|update|into) (\(|[\w".]+\(?)/g),
    ];
    return found.flatMap(([whole, name = ""]) => {
      const isFine =
        name.includes('"."') ||
        own.has(name) ||
        FREE.test(name) ||
        // "for no key update skip locked", "do update set", "is distinct from"
        /update (skip|set|nowait|of)$/.test(whole) ||
        /\bfrom (statement_timestamp|null)/.test(whole) ||
        aliasesOf(sql).has(name);
      return isFine ? [] : [`${application}: "${whole}" in ${shortened(sql)}`];
    });
  });
}

/** Names that a subquery or a list was given: `(…) as bound`, `… lateral (…) known on true`. */
const aliasesOf = (sql: string): ReadonlySet<string> =>
  new Set([...sql.matchAll(/\) (?:as )?(\w+)/g)].map(([, alias = ""]) => alias));

/** What a worker's write about an attempt must name: id, version, status, and a lease that has not run out. */
const FENCE = [
  /\bid = /,
  /lease_version = (item\.version|\$\d+::int)/,
  /status = '(running|done)'/,
];
const LIVE = /lease_until > statement_timestamp\(\)/;

/** What a claim locks instead: rows that nobody holds, or whose lease has run out. */
const CLAIM = [/skip locked/, /lease_until is null/];

/** What gives back stray claims: rows of this very worker. */
const STRAY = [/status = 'running'/, /locked_by = \$\d+/, LIVE, /skip locked/];

/** Every update and delete of a worker on jobs is fenced, or a claim, or takes back what is its own. */
export function unfencedWrites(sent: SentStatements): string[] {
  return ours(sent)
    .filter(({ application, sql }) => application !== "app" || sql.includes("lease_version"))
    .flatMap(({ application, sql }) => {
      const parts = partsOf(sql);
      return parts
        .filter(({ text }) => /^(update|delete from) "\w+"\."queue_jobs"/.test(text))
        .filter((part) => !isFenced(part, parts))
        .map((part) => `${application}: ${part.name} in ${shortened(sql)}`);
    });
}

/** The write itself names what it must, or takes its rows from parts that have locked them under it. */
function isFenced(write: SqlPart, parts: readonly SqlPart[]): boolean {
  const sources = sourcesOf(write, parts);
  const text = [write, ...sources].map((part) => part.text).join(" ");
  const isDiscard = /status = 'done'/.test(sources.map((part) => part.text).join(" "));
  if (FENCE.every((rule) => rule.test(text)) && (isDiscard || LIVE.test(text))) return true;
  if (STRAY.every((rule) => rule.test(text))) return true;
  const raisesVersion = /lease_version = lease_version \+ 1/.test(write.text);
  return raisesVersion && CLAIM.every((rule) => rule.test(text));
}

/** The parts that a part reads from, and those that they read from. */
function sourcesOf(part: SqlPart, parts: readonly SqlPart[]): SqlPart[] {
  const place = parts.indexOf(part);
  const direct = parts
    .slice(0, place)
    .filter(({ name }) => new RegExp(`\\b${name}\\b`).test(part.text));
  return [...new Set(direct.flatMap((source) => [source, ...sourcesOf(source, parts)]))];
}

const shortened = (sql: string): string => sql.replaceAll(/\s+/g, " ").slice(0, 160);
