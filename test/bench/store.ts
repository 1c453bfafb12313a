import type { ServerCost } from "./server.js";

/** Where a contender keeps its jobs: what the benchmarks need of a PostgreSQL or a Redis server. */
export interface Store {
  urlOf(database: string): string;
  create(database: string): Promise<void>;
  drop(database: string): Promise<void>;
  /** What the server has cost since it was started. */
  cost(): Promise<ServerCost>;
}
