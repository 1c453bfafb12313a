import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { sql } from "drizzle-orm";
import type { Database } from "./database.js";
import { airports, flights } from "./schema.js";

/** How many rows go into one insert: PostgreSQL takes 65,535 parameters. */
const ROWS_PER_INSERT = 5_000;

/** A flight as vega-datasets has it. */
interface RawFlight {
  /** Such as "2001/01/01 00:47". */
  readonly date: string;
  readonly delay: number;
  readonly distance: number;
  readonly origin: string;
  readonly destination: string;
}

/** Loads the real flights and airports of the npm package vega-datasets. */
export async function loadFlights(
  db: Database,
): Promise<{ readonly airports: number; readonly flights: number }> {
  const airportRows = readAirports();
  const raw = JSON.parse(dataFile("flights-20k.json")) as RawFlight[];
  const flightRows = raw.map(({ date, delay, distance, origin, destination }) => ({
    departure: date,
    delayMinutes: delay,
    distanceMiles: distance,
    origin,
    destination,
  }));
  await db.transaction(async (tx) => {
    for (const rows of chunks(airportRows)) await tx.insert(airports).values(rows);
    for (const rows of chunks(flightRows)) await tx.insert(flights).values(rows);
  });
  return { airports: airportRows.length, flights: flightRows.length };
}

/** The airports with the most departures, the busiest first. */
export async function busiestAirports(db: Database, limit: number): Promise<string[]> {
  const rows = await db
    .select({ code: flights.origin })
    .from(flights)
    .groupBy(flights.origin)
    .orderBy(sql`count(*) desc`, flights.origin)
    .limit(limit);
  return rows.map(({ code }) => code);
}

/** Columns: iata, name, city, … Names with a comma are in quotes. */
function readAirports(): (typeof airports.$inferInsert)[] {
  const [, ...lines] = dataFile("airports.csv").trim().split("\n");
  return lines.map((line) => {
    const [code = "", name = "", city = ""] = [...line.matchAll(/("[^"]*"|[^",]*)(?:,|$)/g)].map(
      ([, field = ""]) => field.replaceAll('"', ""),
    );
    return { code, name, city };
  });
}

/** The package exports its code only, so its data is found beside it. */
function dataFile(name: string): string {
  const entry = createRequire(import.meta.url).resolve("vega-datasets");
  return readFileSync(join(dirname(entry), "..", "data", name), "utf8");
}

function* chunks<T>(rows: readonly T[]): Generator<T[]> {
  for (let at = 0; at < rows.length; at += ROWS_PER_INSERT)
    yield rows.slice(at, at + ROWS_PER_INSERT);
}
