/** Removes the last build, so that a file deleted from src/ does not stay in the package. */
import { rmSync } from "node:fs";

rmSync(new URL("../dist", import.meta.url), { recursive: true, force: true });
