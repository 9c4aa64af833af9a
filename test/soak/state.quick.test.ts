import { prove } from "../faults/goal.ts";
import { crashes } from "./crashes.ts";
import { keys } from "./keys.ts";
import { libraryKilled } from "./library-killed.ts";

// The same code as `npm run soak`, with smaller numbers.
for (const goal of [crashes, keys, libraryKilled]) prove(goal, 0.03);
