import { defineConfig } from "drizzle-kit";

/** The app's migrations, the queue's tables among them: `npx drizzle-kit generate` in this folder. */
export default defineConfig({
  dialect: "postgresql",
  schema: "./schema.ts",
  out: "./drizzle",
});
