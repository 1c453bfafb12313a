import process from "node:process";
import { readLedger } from "../ledger/read-ledger.js";
import { describeVerdicts } from "../report/report.js";
import { checkRun } from "./check-run.js";

/** Judges a run again by the folder that it left: `tsx test/crash/checker/main.ts <folder>`. */
const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("Name the folder that a run has left.");
const verdicts = checkRun(readLedger(folder));
process.stdout.write(`${describeVerdicts(verdicts)}\n`);
process.exitCode = verdicts.some(({ violations }) => violations.length > 0) ? 1 : 0;
