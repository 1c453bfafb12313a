import { defineConfig } from "drizzle-kit";

/** Where `npm run schema` reads the tables and writes their migrations. */
export default defineConfig({
  dialect: "postgresql",
  schema: "./src/schema/index.ts",
  out: "./drizzle",
});
