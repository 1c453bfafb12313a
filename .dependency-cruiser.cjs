/** The import rule of src/: which room may import which, and which npm package at run time. */
const rooms = {
  instrumentation: { rooms: [], npm: [] },
  // A wrong option is refused in the same words everywhere.
  schema: { rooms: [], files: ["registry/option-checks"], npm: ["drizzle-orm"] },
  registry: { rooms: [], npm: ["zod"] },
  queries: { rooms: ["schema"], npm: ["drizzle-orm"] },
  enqueue: { rooms: ["queries", "registry", "instrumentation"], npm: [] },
  maintenance: { rooms: ["queries", "instrumentation"], npm: [] },
  worker: {
    rooms: ["maintenance", "queries", "registry", "instrumentation"],
    // Which tables the queue's statements are for is part of what a queue hands to its worker.
    files: ["schema/table-names", "schema/job-states"],
    // Loaded only by the driver of an app whose database runs on it.
    npm: ["postgres"],
  },
  scheduler: {
    rooms: ["enqueue", "queries", "registry", "instrumentation"],
    // Its transactions end and its pauses grow as those of a worker do.
    files: [
      "schema/table-names",
      "worker/(alarm|clock|deadline|fatal-error|retry-pause)",
      "worker/drivers/(app-pool|driver-of|transact)",
    ],
    npm: ["croner"],
  },
  testing: {
    rooms: ["enqueue", "queries", "registry", "worker", "instrumentation"],
    npm: [],
  },
  admin: {
    rooms: ["queries"],
    files: ["registry/option-checks", "schema/table-names", "schema/job-states", "schema/jobs"],
    npm: [],
  },
};

const npmTypes = ["npm", "npm-dev", "npm-peer", "npm-optional", "npm-no-pkg", "npm-unknown"];

/** What a room may import beside itself and errors.ts; npm packages may lend their types to all. */
const rulesOf = ([room, may]) => [
  {
    name: `${room}: rooms`,
    severity: "error",
    from: { path: `^src/${room}/` },
    to: {
      path: "^src/",
      pathNot: `^src/((${["errors", ...(may.files ?? [])].join("|")})\\.ts|(${[room, ...may.rooms].join("|")})/)`,
    },
  },
  {
    name: `${room}: npm`,
    severity: "error",
    from: { path: `^src/${room}/` },
    to: {
      dependencyTypes: npmTypes,
      dependencyTypesNot: ["type-only"],
      ...(may.npm.length > 0 && { pathNot: `node_modules/(${may.npm.join("|")})/` }),
    },
  },
];

module.exports = {
  forbidden: [
    { name: "no cycles", severity: "error", from: {}, to: { circular: true } },
    {
      name: "no orphans",
      severity: "error",
      from: { orphan: true, pathNot: "\\.d\\.ts$" },
      to: {},
    },
    {
      name: "queries: names only of the schema",
      comment: "A bundle that only enqueues carries no table definitions.",
      severity: "error",
      from: { path: "^src/queries/" },
      to: {
        path: "^src/schema/(?!table-names\\.ts|job-states\\.ts)",
        dependencyTypesNot: ["type-only"],
      },
    },
    {
      name: "errors and instrumentation stand alone",
      severity: "error",
      from: { path: "^src/errors\\.ts$" },
      to: { path: "." },
    },
    {
      name: "the front doors: no worker code",
      comment: "The web process imports these and must not pay for the worker.",
      severity: "error",
      from: { path: "^src/(index|create-queue)\\.ts$" },
      to: { path: "^src/(worker|maintenance)/", dependencyTypesNot: ["type-only"] },
    },
    {
      name: "node modules only in worker",
      severity: "error",
      from: { path: "^src/", pathNot: "^src/worker/" },
      to: { dependencyTypes: ["core"], dependencyTypesNot: ["type-only"] },
    },
    ...Object.entries(rooms).flatMap(rulesOf),
  ],
  options: {
    tsConfig: { fileName: "tsconfig.json" },
    tsPreCompilationDeps: true,
    doNotFollow: { path: "node_modules" },
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["import", "types", "default"],
    },
  },
};
