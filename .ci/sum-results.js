/**
 * Sums vitest's JSON reports of a folder. A failed step that is no test, or one
 * whose tests could not even be started, counts as one failure.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";

const [folder, ...failedSteps] = process.argv.slice(2);
let passed = 0;
let failed = 0;
let skipped = 0;
const explained = new Set();

for (const file of readdirSync(folder)) {
  const report = JSON.parse(readFileSync(join(folder, file), "utf8"));
  passed += report.numPassedTests;
  failed += report.numFailedTests;
  skipped += report.numPendingTests + report.numTodoTests;
  if (report.numFailedTests > 0) explained.add(file.replace(".json", ""));
}

for (const step of failedSteps) {
  console.log(`Failed: ${step}`);
  if (!explained.has(step.replaceAll(" ", "-"))) failed += 1;
}
if (skipped > 0) console.log(`${skipped} skipped`);
if (passed === 0 && failed === 0) failed = 1;
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
