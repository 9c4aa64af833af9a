import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Where the packages of the foreign clients are. */
export const foreignPackages = fileURLToPath(new URL("node_modules", import.meta.url));

/** Whether they are installed, which `npm ci` alone does not do. */
export const isForeignInstalled = existsSync(foreignPackages);
