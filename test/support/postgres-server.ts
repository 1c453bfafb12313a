import process from "node:process";
import {
  type PostgresServer,
  type PostgresServerOptions,
  startPostgresServer as startServer,
} from "../../examples/support/postgres-server.js";
import { installFixture } from "./matrix/install-fixture.js";

export type { PostgresServer } from "../../examples/support/postgres-server.js";

/** The majors that the project is tested on; the newest comes with the development dependencies. */
export const POSTGRES_MAJORS = [14, 16, 18] as const;

/** One of the majors that the project is tested on. */
export type PostgresMajor = (typeof POSTGRES_MAJORS)[number];

/** What a test may ask of a server of its own. */
export interface TestServerOptions extends Pick<PostgresServerOptions, "settings"> {
  /** The environment variable PG_MAJOR by default, else the newest. */
  readonly major?: PostgresMajor;
}

/** Starts a server that belongs to one test, to be restarted or crashed at will. */
export async function startPostgresServer(
  options: TestServerOptions = {},
): Promise<PostgresServer> {
  const major = options.major ?? majorFromEnvironment();
  const settings = options.settings ?? {};
  if (major === POSTGRES_MAJORS.at(-1)) return startServer({ settings });
  return startServer({
    settings,
    installedIn: installFixture(`test/support/matrix/postgres-${major}`),
  });
}

function majorFromEnvironment(): PostgresMajor {
  const wanted = process.env["PG_MAJOR"] ?? "18";
  const major = POSTGRES_MAJORS.find((candidate) => String(candidate) === wanted);
  if (major === undefined)
    throw new Error(`PG_MAJOR is ${wanted}; it may be ${POSTGRES_MAJORS.join(", ")}.`);
  return major;
}
