/** What bin/vidgen.js starts, in one file. */

export { main } from "./main.ts";
export { systemIo } from "./system.ts";
