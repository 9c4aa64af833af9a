import { fullDisk } from "./full-disk.ts";
import { prove } from "./goal.ts";
import { killed } from "./killed.ts";
import { malformed } from "./malformed.ts";
import { signalled } from "./signals.ts";

// The goals that start the built program, in full.
for (const goal of [killed, signalled, fullDisk, malformed]) prove(goal, 1);
