/** The app has these already; zod counts, since the limit is on what the queue brings in. */
const external = ["drizzle-orm", "pg", "postgres", "@electric-sql/pglite"];

export default [
  {
    name: "enqueue only, with zod/mini",
    path: "test/package/size/enqueue-only.js",
    limit: "12 kB",
    gzip: true,
    modifyEsbuildConfig: (config) => ({ ...config, external }),
  },
];
