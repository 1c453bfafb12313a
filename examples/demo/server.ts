import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { eq } from "drizzle-orm";
import type { Database } from "./database.js";
import { enqueue, type ReportRequest, reportRequest } from "./jobs.js";
import { charts, reports } from "./schema.js";

/** A running HTTP server. */
export interface ReportServer {
  readonly url: string;
  close(): Promise<void>;
}

/** Starts the service: `POST /reports` asks for a report, `GET /reports/7` fetches it. */
export async function startServer(db: Database): Promise<ReportServer> {
  const server = createServer((request, response) => {
    answer(db, request, response).catch((error: unknown) => {
      console.error("The server could not answer:", error);
      reply(response, 500, { error: "internal error" });
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function answer(
  db: Database,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const id = /^\/reports\/(\d{1,15})$/.exec(request.url ?? "")?.[1];
  if (request.method === "GET" && id !== undefined) return sendChart(db, Number(id), response);
  if (request.method !== "POST" || request.url !== "/reports")
    return reply(response, 404, { error: "not found" });
  const parsed = reportRequest.safeParse(parseJson(await text(request)));
  if (!parsed.success) return reply(response, 400, { error: parsed.error.issues });
  try {
    return reply(response, 202, await requestReport(db, parsed.data));
  } catch (error) {
    if (!isForeignKeyViolation(error)) throw error;
    return reply(response, 422, { error: `There is no airport ${parsed.data.airport}.` });
  }
}

/**
 * Writes the request and enqueues its job: both or neither.
 *
 * When the same report was asked for before, `enqueue` answers with that job, and no second row is written.
 */
function requestReport(db: Database, { airport, kind }: ReportRequest) {
  return db.transaction(async (tx) => {
    const job = await enqueue(tx, "report", { airport, kind });
    // An unknown airport violates a foreign key here, which takes the job back with it.
    await tx.insert(reports).values({ airport, kind, jobId: job.id }).onConflictDoNothing();
    const [report] = await tx
      .select({ id: reports.id })
      .from(reports)
      .where(eq(reports.jobId, job.id));
    return { report: report?.id, isNew: job.created };
  });
}

async function sendChart(db: Database, id: number, response: ServerResponse): Promise<void> {
  const [chart] = await db.select().from(charts).where(eq(charts.reportId, id));
  if (chart === undefined) return reply(response, 404, { error: "not made yet" });
  response.writeHead(200, { "content-type": "image/svg+xml" }).end(chart.svg);
}

function reply(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    // Refused by the schema, which says what is expected.
    return undefined;
  }
}

/** Drizzle wraps the driver's error. */
function isForeignKeyViolation(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error && "code" in cause && cause.code === "23503";
}
