/**
 * Installs the dependencies when they are missing or when the lock file has
 * changed since, so that `npm test` and `npm run demo` work in a fresh clone.
 *
 * Plain JavaScript without imports from npm: it runs before anything is installed.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const stampFile = `${root}node_modules/.installed-lock`;
const installedLockFile = `${root}node_modules/.package-lock.json`;
const lock = readFileSync(`${root}package-lock.json`, "utf8");
const stamp = createHash("sha256").update(lock).digest("hex");

/** npm's own record of what it put there; what a plain `npm install` leaves behind. */
function installedByHand() {
  if (!existsSync(installedLockFile)) return false;
  const installed = JSON.parse(readFileSync(installedLockFile, "utf8")).packages;
  return Object.entries(JSON.parse(lock).packages).every(
    ([path, entry]) => path === "" || entry.optional || installed[path]?.version === entry.version,
  );
}

function isCurrent() {
  if (existsSync(stampFile) && readFileSync(stampFile, "utf8") === stamp) return true;
  return installedByHand();
}

if (!isCurrent()) {
  console.log("Installing the dependencies of this project (npm ci) …");
  const install = spawnSync("npm", ["ci", "--no-audit", "--no-fund"], {
    cwd: root,
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  if (install.status !== 0) {
    console.error("npm ci failed. Is the npm registry within reach?");
    process.exit(install.status ?? 1);
  }
}
writeFileSync(stampFile, stamp);
