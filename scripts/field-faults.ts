/**
 * Writes docs/field-faults.md from the lists in test/field-faults.
 *
 *     tsx scripts/field-faults.ts
 */
import { writeFileSync } from "node:fs";
import { fieldFaultsPage } from "../test/field-faults/page.js";

writeFileSync(new URL("../docs/field-faults.md", import.meta.url), fieldFaultsPage());
