/** What bin/vidgen.cjs starts, in one file. */
export { systemIo } from "./io.ts";
export { main } from "./main.ts";
